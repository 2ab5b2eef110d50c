// Package origin is a web server for the demo, for tests and for the laboratory. It serves scripts, which say
// what a document looks like at each time.
//
// Each path has its own script. It is served as good origins serve feeds: with a strong ETag, Last-Modified,
// 304 and gzip. The server records every request, so that requests can be counted by client. A path can also
// be told to misbehave.
//
// Scripts come from internal/script. The package reads traces of real documents and turns them into
// snapshots. It does not plan how traces are replayed.
package origin
