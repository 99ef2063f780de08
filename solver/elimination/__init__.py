"""Min-sum elimination over cost graphs: programs of shared tables, and what is searched with them."""
