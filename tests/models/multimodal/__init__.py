"""Tests of models of images and text."""
