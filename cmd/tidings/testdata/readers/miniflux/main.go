// Command miniflux prints what Miniflux finds in the documents at some addresses. It is built within Miniflux's
// module, because the packages that read feeds are internal there.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"miniflux.app/v2/internal/reader/parser"
)

type item struct {
	Title, Link, Date, Content string
	Authors, Enclosures        []string
}

type document struct {
	Title, Link, Fault string
	Items              []item
}

func main() {
	all := []document{}
	for _, address := range os.Args[1:] {
		d, err := read(address)
		if err != nil {
			d.Fault = err.Error()
		}
		all = append(all, d)
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		panic(err)
	}
}

func read(address string) (d document, err error) {
	a, err := http.Get(address)
	if err != nil {
		return d, err
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		return d, err
	}
	f, err := parser.ParseFeed(a.Request.URL.String(), bytes.NewReader(body))
	if err != nil {
		return d, err
	}
	d.Title, d.Link = f.Title, f.SiteURL
	for _, e := range f.Entries {
		i := item{Title: e.Title, Link: e.URL, Content: e.Content, Authors: []string{e.Author}}
		if time.Since(e.Date) > time.Hour || time.Since(e.Date) < -time.Hour { // Miniflux takes the present for an unknown date
			i.Date = e.Date.UTC().Format(time.RFC3339)
		}
		for _, file := range e.Enclosures {
			i.Enclosures = append(i.Enclosures, fmt.Sprintf("%s %s %d", file.URL, file.MimeType, file.Size))
		}
		d.Items = append(d.Items, i)
	}
	return d, nil
}
