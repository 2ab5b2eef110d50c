// Package origin is a web server that plays scripts: the origin of the demo, of
// tests and of the laboratory.
//
// Each path has a script of its own, and is served as good origins serve feeds:
// with a strong ETag, Last-Modified, 304 and gzip. Every request is written
// down, so that one can count who asked how often. A path can also be told to
// misbehave.
//
// The package leaves to others what is served (internal/script). It reads traces
// of real documents and makes snapshots of them, but not the plan of their
// replay.
package origin
