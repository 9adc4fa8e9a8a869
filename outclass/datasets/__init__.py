"""The data sets the pipeline can use."""
