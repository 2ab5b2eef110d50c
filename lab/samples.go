package main

import (
	"fmt"
	"strings"
	"time"

	"tidings/internal/daemon/origin"
	"tidings/internal/script"
	"tidings/lab/differences"
)

// Names of the traces that the laboratory generates for --quick.
const (
	feedSample = "sample-feed"
	pageSample = "sample-page"
)

const (
	sampleDocuments = 48            // of each trace
	sampleEvery     = 3 * time.Hour // between two documents
	sampleItems     = 20            // of the feed, and paragraphs of the page
)

// sampleOrigin generates the items of the samples.
func sampleOrigin() *script.Lively {
	return script.NewLively(script.Config{Seed: 1, Items: sampleItems, Window: sampleItems, Every: 12 * time.Hour, Rebuild: sampleEvery})
}

// sampleFeed returns a trace of a feed that gains items and has a new build date each time, and the
// new items in each of its documents.
func sampleFeed() (of []origin.Snapshot, references map[string]differences.Reference) {
	lively, references := sampleOrigin(), map[string]differences.Reference{}
	last := lively.Published(0)
	for i := range sampleDocuments {
		at := time.Duration(i) * sampleEvery
		version := lively.At(at)
		file := fmt.Sprintf("%04d.xml", i+1)
		of = append(of, origin.Snapshot{File: file, Time: time.Unix(0, 0).Add(at), ContentType: version.ContentType, Body: version.Body})
		references[file] = differences.Reference{New: lively.Published(at) - last}
		last = lively.Published(at)
	}
	return of, references
}

// samplePage returns a trace of a page in which every fourth document has a new paragraph, and
// every document another number in its scripts; and the labels of the changes of wording.
func samplePage() (of []origin.Snapshot, labels map[string]string) {
	lively, labels := sampleOrigin(), map[string]string{}
	var paragraphs []string
	for i := range sampleItems {
		paragraphs = append(paragraphs, lively.Item(i).HTML)
	}
	for i := range sampleDocuments {
		file := fmt.Sprintf("%04d.html", i+1)
		if i%4 == 3 {
			paragraphs[i%sampleItems] = lively.Item(sampleItems + i).HTML
			labels[file] = differences.Wording
		}
		of = append(of, origin.Snapshot{
			File: file, Time: time.Unix(0, 0).Add(time.Duration(i) * sampleEvery), ContentType: "text/html; charset=utf-8",
			Body: fmt.Appendf(nil, "<!doctype html><title>Terms</title><script>nonce=%d</script><h1>Terms</h1>%s", i, strings.Join(paragraphs, "\n")),
		})
	}
	return of, labels
}
