package feed

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FeedTree, IPTPS 2005, §4.3: "FeedTree metadata can be added to the RSS document structure to signal that it
// is available for subscription in the overlay", with "the URL and fingerprint of the publisher's certificate".
// In RSS and Atom this is an element in the namespace of tidings. In JSON Feed it is a member that begins with
// an underscore, as extensions do:
//
//	<tidings:publisher xmlns:tidings="urn:tidings:feed:1" key="…" next="…" beat="3600"
//	   certificate="https://…" fingerprint="…"/>
//	"_tidings_publisher": {"key": "…", "next": "…", "beat": 3600, …}

// A Publisher is the entry of a head that says who publishes its feed in the overlay.
type Publisher struct {
	Key         ed25519.PublicKey
	Next        Hash          // hash of the announced next key; zero: none
	Certificate string        // address of the certificate; may be ""
	Fingerprint Hash          // SHA-256 of the certificate; zero: not stated
	Beat        time.Duration // longest time without a publication, whole seconds; 0: not stated
}

const (
	// maxBeatTime bounds the beat that a publisher can promise. A node that receives nothing for longer asks
	// the origin.
	maxBeatTime = 7 * 24 * time.Hour
	// maxCertificate is the maximum size of a certificate's address in bytes.
	maxCertificate = 2 << 10
)

const (
	publisherElement = "publisher"
	publisherMember  = "_tidings_publisher"
)

// Publisher returns the publisher that the head names. ok is false if there is none, or if its entry is
// invalid. Of several entries the first counts.
func (h *Head) Publisher() (p Publisher, ok bool) {
	if h.Format == JSON {
		get := membersOf(h.Raw)
		raw, has := get[publisherMember]
		if !has || len(raw) == 0 || raw[0] != '{' {
			return p, false
		}
		entry := membersOf(raw)
		return parsePublisher(func(name string) string {
			if v := entry[name]; name == "beat" && len(v) > 0 && v[0] != '"' {
				return string(v)
			}
			return stringOf(entry[name])
		})
	}
	outer := 1
	for w := walk(h.Raw, nil); w.step(); {
		switch {
		case w.starts() && w.depth() == 2 && h.Format != Atom && w.container():
			outer = 2
		case w.starts() && w.depth() == outer+1 && w.uri == Namespace && string(w.local) == publisherElement:
			return parsePublisher(w.value)
		}
	}
	return p, false
}

// parsePublisher reads the entry from its named values.
func parsePublisher(value func(name string) string) (p Publisher, ok bool) {
	key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(value("key")))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return p, false
	}
	p.Key = key
	for name, hash := range map[string]*Hash{"next": &p.Next, "fingerprint": &p.Fingerprint} {
		text := strings.TrimSpace(value(name))
		if b, err := hex.DecodeString(text); err == nil && len(b) == len(hash) {
			*hash = Hash(b)
		} else if text != "" {
			return Publisher{}, false // ignoring an invalid value would change the promise
		}
	}
	if text := strings.TrimSpace(value("beat")); text != "" {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 0 || time.Duration(n)*time.Second > maxBeatTime {
			return Publisher{}, false
		}
		p.Beat = time.Duration(n) * time.Second
	}
	p.Certificate = strings.TrimSpace(value("certificate"))
	if len(p.Certificate) > maxCertificate || p.Certificate != "" && !isAbsolute(p.Certificate) {
		return Publisher{}, false
	}
	return p, true
}

// Check checks that a publisher can be written into a head.
func (p *Publisher) Check() error {
	switch {
	case len(p.Key) != ed25519.PublicKeySize:
		return fmt.Errorf("publisher: a key of %d bytes", len(p.Key))
	case p.Beat != 0 && (p.Beat%time.Second != 0 || p.Beat < time.Second || p.Beat > maxBeatTime):
		return fmt.Errorf("publisher: a beat interval of %v: give whole seconds, a week at most", p.Beat)
	case len(p.Certificate) > maxCertificate || p.Certificate != "" && !isAbsolute(p.Certificate):
		return fmt.Errorf("publisher: the certificate's address is none")
	}
	return nil
}

// Metadata returns the entry to paste into the head of a document in a format. p must have passed Check.
func (p *Publisher) Metadata(f Format) string {
	type attr struct{ name, value string }
	attrs := []attr{{"key", base64.StdEncoding.EncodeToString(p.Key)}}
	if p.Next != (Hash{}) {
		attrs = append(attrs, attr{"next", p.Next.String()})
	}
	if p.Beat != 0 {
		attrs = append(attrs, attr{"beat", strconv.FormatInt(int64(p.Beat/time.Second), 10)})
	}
	if p.Certificate != "" {
		attrs = append(attrs, attr{"certificate", p.Certificate})
	}
	if p.Fingerprint != (Hash{}) {
		attrs = append(attrs, attr{"fingerprint", p.Fingerprint.String()})
	}
	var b strings.Builder
	if f == JSON {
		b.WriteString(`"` + publisherMember + `": {`)
		for i, a := range attrs {
			if i > 0 {
				b.WriteString(", ")
			}
			value := string(marshal(a.value))
			if a.name == "beat" {
				value = a.value
			}
			b.WriteString(`"` + a.name + `": ` + value)
		}
		return b.String() + "}"
	}
	b.WriteString("<tidings:" + publisherElement + Binding{"tidings", Namespace}.attribute())
	for _, a := range attrs {
		b.WriteString(" " + a.name + `="` + escapeAny(a.value) + `"`)
	}
	return b.String() + "/>"
}
