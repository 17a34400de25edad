"""Language of own SQL: scripts, statements, expressions and the operations that they become."""
