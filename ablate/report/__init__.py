"""What a study found, told: StudyResults -> tables and plots -> one page, Markdown, CSV, LaTeX.

Reads plain records only: no torch, Optuna, MLflow or Typer in here.
"""
