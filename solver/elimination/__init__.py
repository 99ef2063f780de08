"""Min-sum elimination over cost graphs: shared tables, and what is searched with them."""
