"""The services of Phalanx and the libraries that they share."""
