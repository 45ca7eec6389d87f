"""Questions put to a model in a row, one file each: generators of progress. Knows runs and the rooms below; not who asked."""
