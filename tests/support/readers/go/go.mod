module gate.tests/reader

go 1.19
