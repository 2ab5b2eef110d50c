// Subscribes to a topic at a hub by pubsubhubbub, a WebSub subscriber, and prints each document that it is sent as a
// JSON string, until its standard input ends. Its arguments are the topic, the hub, and the port at which to listen.
import pubSubHubbub from 'pubsubhubbub'

const [topic, hub, port] = process.argv.slice(2)
const print = (what) => process.stdout.write(JSON.stringify(what) + '\n')
const subscriber = pubSubHubbub.createServer({ callbackUrl: `http://127.0.0.1:${port}/` })
subscriber.on('subscribe', () => print('subscribed'))
subscriber.on('denied', (why) => print(`denied: ${why.error}`))
subscriber.on('error', (why) => print(`error: ${why}`))
subscriber.on('feed', (data) => print(data.feed.toString()))
subscriber.on('listen', () => subscriber.subscribe(topic, hub))
subscriber.listen(Number(port), '127.0.0.1')
process.stdin.on('end', () => process.exit()).resume()
