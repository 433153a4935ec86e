"""One file per figure: `measure` compares oncue with its references, `bare` runs the reference alone."""
