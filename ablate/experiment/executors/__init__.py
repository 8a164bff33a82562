"""Where the work of a study is done: in this process, in others on this machine, or on Ray."""
