"""
Four rules on one system
========================

The error in H against updates.
"""

import apviz
from apviz import rkhs

x, b = rkhs.toy_problem("crowded", 24)
span = rkhs.Span(x, apviz.Matern52(lengthscale=0.1), noise=0.1)
comparison = rkhs.compare_rules(span, b, block_size=4, steps=24)
figure = apviz.plots.rkhs.rule_errors(comparison, 12)
