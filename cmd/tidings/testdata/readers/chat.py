# Talks with an account by slixmpp, an XMPP client, and prints each message as a line of JSON, until its standard input
# ends. Each line of the input is sent. Its arguments are the own account, its password, the account to talk with, the port of
# the server on this machine, and the file with the server's certificate.
import asyncio, json, sys
from slixmpp import ClientXMPP

own, password, other, port, certificate = sys.argv[1:]


def say(what):
    print(json.dumps(what), flush=True)


class Chat(ClientXMPP):
    def __init__(self):
        super().__init__(own, password)
        self.ca_certs = certificate
        self.auto_authorize = self.auto_subscribe = True
        self.register_plugin('xep_0199')
        self.add_event_handler('session_start', self.begin)
        self.add_event_handler('message', lambda m: say({'id': m['id'], 'from': m['from'].bare, 'body': m['body']}))
        self.add_event_handler('disconnected', lambda _: self.loop.call_later(1, self.meet))

    def meet(self):
        self.connect(('127.0.0.1', int(port)))

    async def begin(self, _):
        self.send_presence()
        await self.get_roster()
        self.send_presence_subscription(pto=other)
        say({'id': '', 'body': 'ready'})

    async def read(self):
        lines = asyncio.StreamReader()
        await self.loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        async for line in lines:
            self.send_message(mto=other, mbody=line.decode().strip(), mtype='chat')


chat = Chat()
chat.meet()
chat.loop.run_until_complete(chat.read())
