"""The gateway: Runs and Sessions over HTTP, for any language and a browser.

It keeps nothing but connections: any number of them may serve the same Temporal namespace.
"""
