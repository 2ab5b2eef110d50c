// Prints what rss-parser or feedsmith, the first argument, finds in the documents at some addresses.
import Parser from 'rss-parser'
import { parseFeed } from 'feedsmith'

const plain = (v) => (typeof v === 'string' ? v : JSON.stringify(v ?? ''))
const list = (v) => (v ?? []).filter((s) => s)

const readers = {
  async 'rss-parser'(text) {
    const d = await new Parser().parseString(text)
    return {
      title: plain(d.title), link: d.link,
      items: d.items.map((i) => ({
        title: plain(i.title), link: i.link, date: i.isoDate ?? i.pubDate, authors: list([i.creator ?? i.author]),
        enclosures: list([i.enclosure]).map((e) => `${e.url} ${e.type} ${e.length}`),
        content: list([i.content, i['content:encoded'], i.summary]).map(plain).join('\n'),
      })),
    }
  },
  feedsmith(text) {
    const { feed: d } = parseFeed(text)
    const alternate = (links) => list(links).find((l) => !l.rel || l.rel === 'alternate')?.href
    const enclosures = (i) => [
      ...list(i.enclosures).map((e) => `${e.url} ${e.type} ${e.length}`),
      ...list(i.links).filter((l) => l.rel === 'enclosure').map((l) => `${l.href} ${l.type} ${l.length}`),
      ...list(i.attachments).map((a) => `${a.url} ${a.mime_type} ${a.size_in_bytes}`),
      ...list([...list(i.media?.contents), ...list(i.media?.group?.contents)]).map((m) => `${m.url} ${m.type}`),
    ]
    const text_ = (v) => (typeof v === 'object' && v ? v.value : v)
    return {
      title: text_(d.title), link: d.link ?? d.home_page_url ?? alternate(d.links),
      items: (d.items ?? d.entries ?? []).map((i) => ({
        title: text_(i.title), link: i.link ?? i.url ?? alternate(i.links),
        date: i.pubDate ?? i.published ?? i.date_published ?? i.dc?.dates?.[0] ?? i.dc?.date,
        authors: list([...list(i.authors), ...list(i.dc?.creators), i.dc?.creator, i.itunes?.author]).map((a) => a.name ?? a),
        enclosures: enclosures(i),
        content: list([i.description, i.content?.encoded, text_(i.summary), i.content?.encoded ? '' : text_(i.content), i.content_html, i.content_text]).join('\n'),
      })),
    }
  },
}

const [name, ...addresses] = process.argv.slice(2)
const documents = addresses.map(async (address) => {
  try {
    const d = await readers[name](await (await fetch(address)).text())
    return { ...d, title: d.title ?? '', link: d.link ?? '' }
  } catch (e) {
    return { fault: String(e) }
  }
})
console.log(JSON.stringify(await Promise.all(documents)))
