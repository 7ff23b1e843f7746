"""Training tables without broker and Spark: lives of pipelines on paper, written by the platform's own commit."""
