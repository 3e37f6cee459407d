"""Reports of a simulation: the failure in words, sequence diagrams as text and SVG, a trace for Perfetto."""
