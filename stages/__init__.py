"""One module a DVC stage: read files, call ``outclass``, write files."""
