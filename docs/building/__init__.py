"""Extensions of Sphinx for the site: links into the repository, formulas, figures."""
