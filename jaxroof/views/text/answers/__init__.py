"""What commands print and reports show, one file a question: its sentences and tables in order."""
