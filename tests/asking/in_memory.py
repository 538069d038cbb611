"""A client of an application without a server between them."""

import asyncio

import httpx


class InMemory(httpx.BaseTransport):
    """Calls an ASGI application."""

    def __init__(self, app):
        self.transport = httpx.ASGITransport(app)

    def handle_request(self, request):
        sent = httpx.Request(
            request.method, request.url, headers=request.headers, content=request.read()
        )

        async def answered():
            found = await self.transport.handle_async_request(sent)
            return httpx.Response(
                found.status_code, headers=found.headers, content=await found.aread()
            )

        return asyncio.run(answered())


def client_of(app, address="http://localhost"):
    """A client that keeps cookies, and does not follow redirections."""
    return httpx.Client(transport=InMemory(app), base_url=address)
