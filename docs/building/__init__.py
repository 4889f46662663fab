"""What the site needs beside Sphinx: links into the repository, formulas, figures."""
