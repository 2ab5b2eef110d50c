package difference

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"tidings/difference/differencepb"
	"tidings/internal/feed"
	"tidings/internal/longtest"
	"tidings/internal/wire"
)

// pack encodes messages that Encode would not produce.
func pack(t testing.TB, m *differencepb.Delta) []byte {
	t.Helper()
	return packBytes(t, wire.Encode(m))
}

func packBytes(t testing.TB, b []byte) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return enc.EncodeAll(b, nil)
}

func TestDecodeRefuses(t *testing.T) {
	item := func(change func(*differencepb.Change)) *differencepb.Delta {
		c := &differencepb.Change{Format: 1, Raw: []byte("<item><guid>1</guid></item>")}
		change(c)
		return &differencepb.Delta{Changes: []*differencepb.Change{c}}
	}
	many := &differencepb.Delta{}
	for range feed.MaxItems + 1 {
		many.Changes = append(many.Changes, &differencepb.Change{})
	}
	if _, err := Decode(pack(t, item(func(*differencepb.Change) {}))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		b    []byte
		says string
	}{
		{"nothing packed", []byte("x"), "not a delta"},
		{"a bomb", packBytes(t, make([]byte, MaxDelta+1)), "exceeds"},
		{"no message", packBytes(t, []byte{0xff}), "not a delta"},
		{"too many changes", pack(t, many), "more than 2000 changes"},
		{"too many bindings", pack(t, item(func(c *differencepb.Change) {
			for range feed.MaxScope + 1 {
				c.Scope = append(c.Scope, &differencepb.Binding{})
			}
		})), "more than 64 bindings"},
		{"a format that is none", pack(t, item(func(c *differencepb.Change) { c.Format = 1<<8 + 1 })), "format 257"},
		{"an identity that is none", pack(t, item(func(c *differencepb.Change) { c.After = []byte("x") })), "identity of 1 bytes"},
		{"a withdrawn identity that is none", pack(t, &differencepb.Delta{Withdrawn: [][]byte{make([]byte, 31)}}), "identity of 31 bytes"},
		{"a standing identity that is none", pack(t, &differencepb.Delta{Standing: [][]byte{nil}}), "identity of 0 bytes"},
		{"too many withdrawals", pack(t, &differencepb.Delta{Withdrawn: make([][]byte, feed.MaxItems+1)}), "more than 2000 changes"},
		{"too many facts", pack(t, item(func(c *differencepb.Change) { c.Qualifiers = 1<<8 + 1 })), "257 facts"},
		{"a broken item", pack(t, item(func(c *differencepb.Change) { c.Raw = []byte("<item>") })), "ends too early"},
		{"an item twice", pack(t, &differencepb.Delta{Changes: []*differencepb.Change{
			{Format: 1, Raw: []byte("<item><guid>1</guid></item>")}, {Format: 1, Raw: []byte("<item ><guid>1</guid></item>")},
		}}), "an item twice"},
		{"a broken head", pack(t, &differencepb.Delta{Head: &differencepb.Head{Format: 1, Raw: []byte("<rss>")}}), "ends too early"},
		{"a head of another format", pack(t, &differencepb.Delta{Head: &differencepb.Head{Format: 3, Raw: []byte("<rss></rss>")}}), "broken document"},
	} {
		_, err := Decode(c.b)
		if !errors.Is(err, ErrDelta) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// Decoding takes little time, whatever the delta contains.
func TestDecodeIsQuick(t *testing.T) {
	var m differencepb.Delta
	text := strings.Repeat("<a b=''>&amp;</a>", 480)
	for i := range feed.MaxItems {
		m.Changes = append(m.Changes, &differencepb.Change{Format: 1, Raw: fmt.Appendf(nil, "<item><guid>%d</guid><description>%s</description></item>", i, text)})
	}
	packed := pack(t, &m)
	t.Logf("%d MiB", proto.Size(&m)>>20)
	longtest.Bounded(t, func() {
		if _, err := Decode(packed); err != nil {
			t.Error(err)
		}
	})
}

// bombs returns packed bytes that become more than MaxDelta, by what they are.
func bombs(t testing.TB) map[string][]byte {
	t.Helper()
	whole := packBytes(t, make([]byte, MaxDelta+1))
	half := packBytes(t, make([]byte, MaxDelta/2+1))
	var streamed bytes.Buffer // frames without the size of what they hold
	enc, err := zstd.NewWriter(&streamed)
	if err != nil {
		t.Fatal(err)
	}
	for range 64 {
		if _, err := enc.Write(make([]byte, MaxDelta/32)); err != nil {
			t.Fatal(err)
		}
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"one frame": whole, "two frames": slices.Concat(half, half), "a thousand frames": bytes.Repeat(half, 1000), "no size": streamed.Bytes()}
}

// A delta that becomes too large is refused while it is decompressed, and before it is parsed.
func TestDecodeRefusesBombs(t *testing.T) {
	for what, b := range bombs(t) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(b)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrDelta) || used > 8*MaxDelta { // most of it is garbage of a buffer that grows
			t.Errorf("%s of %d bytes: %v, with %d MiB", what, len(b), err, used>>20)
		}
	}
}

// FuzzPacked decodes arbitrary packed bytes.
func FuzzPacked(f *testing.F) {
	f.Add([]byte{})
	f.Add(packBytes(f, []byte("no delta")))
	for _, b := range bombs(f) {
		if len(b) < 16<<10 {
			f.Add(b)
		}
	}
	d, err := new(Known).Diff(document(f, "T", article{1, 1})).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(d)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, _ := Decode(b)
		size := len(d.Page)
		for _, c := range d.Changes {
			size += len(c.Item.Raw)
		}
		if size > MaxDelta {
			t.Errorf("%d bytes became %d", len(b), size)
		}
	})
}

func FuzzDecode(f *testing.F) {
	doc := document(f, "T", article{1, 1}, article{2, 1})
	d := new(Known).Diff(doc)
	for _, part := range d.Split(1) {
		m := &differencepb.Delta{}
		for i := range part.Changes {
			m.Changes = append(m.Changes, changeMessage(&part.Changes[i]))
		}
		if part.Head != nil {
			m.Head = headMessage(part.Head)
		}
		f.Add(wire.Encode(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Decode(packBytes(t, b)) // FuzzPacked is for the compression
		if err != nil {
			return
		}
		packed, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(packed)
		if err != nil {
			t.Fatal(err)
		}
		if len(again.Changes) != len(d.Changes) || (again.Head == nil) != (d.Head == nil) ||
			!slices.Equal(again.Withdrawn, d.Withdrawn) || !slices.Equal(again.Standing, d.Standing) {
			t.Fatalf("%+v, want %+v", again, d)
		}
		for i, c := range d.Changes {
			e := again.Changes[i]
			if e.Item.ID != c.Item.ID || e.Item.Hash != c.Item.Hash || e.After != c.After || e.Edited != c.Edited || !bytes.Equal(e.Item.Raw, c.Item.Raw) {
				t.Fatalf("%+v, want %+v", e, c)
			}
		}
		var w Window
		w.Apply(d, time.Unix(1.7e9, 0), 1)
		if w.Len() != len(d.Changes) {
			t.Fatalf("%d entries of %d changes", w.Len(), len(d.Changes))
		}
	})
}
