"""Array types and small algorithms that know no planning: union-find, repeats, globs, deadlines."""
