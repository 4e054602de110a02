takes.fixed, takes.aligned = fixed, aligned
