"""Reports: StudyResults -> sections of tables, figures and text -> a page, Markdown, CSV, LaTeX.

Reads results only: no torch, Optuna, MLflow or Typer in here.
"""
