"""The first sentences of a report, one file for each kind of contrast; `contrast` chooses."""
