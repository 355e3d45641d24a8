"""LSH: characterisation by hashed neighbours, and placement by a hashed search of servers."""
