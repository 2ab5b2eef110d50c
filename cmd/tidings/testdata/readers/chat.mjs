// Talks with an account by @xmpp/client, an XMPP client that does not know pings, as chat.py does by another. The
// environment names the certificate of the server.
import { createInterface } from 'node:readline'
import { client, xml } from '@xmpp/client'

const [own, password, other, port] = process.argv.slice(2)
const [username, domain] = own.split('@')
const say = (what) => process.stdout.write(JSON.stringify(what) + '\n')
const chat = client({ service: `xmpp://127.0.0.1:${port}`, domain, username, password })
chat.reconnect.delay = 1000
chat.on('error', () => {}) // it connects again
chat.on('online', async () => {
  await chat.send(xml('presence'))
  await chat.send(xml('presence', { type: 'subscribe', to: other }))
  say({ id: '', body: 'ready' })
})
chat.on('stanza', async (stanza) => {
  const { from, id, type } = stanza.attrs
  if (stanza.is('presence') && type === 'subscribe') await chat.send(xml('presence', { type: 'subscribed', to: from }))
  if (stanza.is('message') && type !== 'error') say({ id: id ?? '', from: from.split('/')[0], body: stanza.getChildText('body') })
})
const start = () => chat.start().catch(() => setTimeout(start, 1000))
start()
for await (const line of createInterface({ input: process.stdin })) await chat.send(xml('message', { type: 'chat', to: other }, xml('body', {}, line)))
process.exit()
