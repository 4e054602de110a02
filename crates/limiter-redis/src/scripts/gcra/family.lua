takes.gcra = gcra
