takes.fixed, takes.aligned, takes.counter = window, window, counter
