"""The command meshwright-server, the web server that it runs, and the demo."""
