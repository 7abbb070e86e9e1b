"""Black-box attacks: real sockets against the running product.  Nothing here imports the product's own packages."""
