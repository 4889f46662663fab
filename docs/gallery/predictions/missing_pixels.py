"""
A picture with 90% of its pixels missing
========================================

A Gaussian process fills them in from the other 10%. Its standard deviation grows with the distance to known pixels. A
thousand known pixels choose the hyperparameters; all of them enter the solve. Here is every second row and column of a
photograph. All of it, 25,000 known pixels and 225,000 predictions with standard deviations, takes 52 seconds of the
processor on one core of an AMD EPYC (``python -m benchmarks.missing_pixels``), and 11 with means alone.
"""

import numpy as np
import plotly.express as px
from sklearn.datasets import load_sample_image

import apviz

picture = load_sample_image("china.jpg")[:400:2, :625:2] @ [0.299, 0.587, 0.114]
places = np.indices(picture.shape).reshape(2, -1).T
known = np.random.default_rng(0).permutation(picture.size)[: picture.size // 10]
trained = apviz.GaussianProcess("matern12").fit(places[known[:1000]], picture.flat[known[:1000]])
gp = apviz.GaussianProcess(hyperparameters=trained.hyperparameters_).fit(places[known], picture.flat[known])
mean, sd = (each.reshape(picture.shape) for each in gp.predict(places, return_std=True))
given = np.where(np.isin(np.arange(picture.size), known).reshape(picture.shape), picture, 255)
shown = {"Known pixels": given, "Filled in": mean, "Standard deviation × 10": 10 * sd, "The photograph": picture}
images, names = np.stack([*shown.values()]).clip(0, 255), [*shown]
figure = (
    px.imshow(images, facet_col=0, facet_col_wrap=2, binary_string=True, height=560, title="90% of the pixels filled")
    .for_each_annotation(lambda each: each.update(text=names[int(each.text[-1])]))
    .update_layout(paper_bgcolor="rgba(0, 0, 0, 0)", font_color="grey", margin={"l": 10, "r": 10, "b": 10})
    .update_xaxes(visible=False)
    .update_yaxes(visible=False)
)
