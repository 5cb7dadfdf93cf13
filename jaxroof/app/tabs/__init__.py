"""The panes of the page: what Panel and Bokeh show, each from one answer."""
