"""Records: the session's finished runs, side by side; files that go out and come in; replay without a model."""

from ui import panels
from ui.sections import exchange, shelf

panels.head("records")

# 1 · the shelf, and the picked ones over each other
shelf.show()

# 2 · out as files, in from files
exchange.show()
panels.how("records", ("engine/codec.py", "load_record"))
panels.go_on("home")
