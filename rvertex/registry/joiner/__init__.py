"""Joins rows of two growing logs by id, once among several sites, as Google's Photon does."""
