takes.counter = counter
