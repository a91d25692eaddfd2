"""Drawing what experiments found: figures for papers, the page, the table in a terminal."""
