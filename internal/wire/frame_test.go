package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"tidings/internal/env"
	"tidings/internal/wire/wirepb"
)

func TestFrameRoundTrip(t *testing.T) {
	for _, layer := range []Layer{Overlay, Scribe} {
		for _, m := range []*wirepb.Hello{{}, {Agent: "a"}, {Agent: strings.Repeat("a", MaxMessage-4)}} {
			frame := AppendFrame([]byte("before"), layer, m)
			frame, ok := bytes.CutPrefix(frame, []byte("before"))
			if !ok || len(frame) > env.MaxFrame {
				t.Fatalf("frame of %d bytes, what stood before it kept: %v", len(frame), ok)
			}
			got, body, err := ParseFrame(frame)
			if err != nil || got != layer {
				t.Fatalf("layer %d, %v; want %d", got, err, layer)
			}
			var back wirepb.Hello
			if err := proto.Unmarshal(body, &back); err != nil || !proto.Equal(&back, m) {
				t.Errorf("%d bytes came back as %d: %v", proto.Size(m), len(body), err)
			}
		}
	}
}

// TestFrameIsTheOneSpecified compares the layers with the fields of the specification's Frame.
func TestFrameIsTheOneSpecified(t *testing.T) {
	fields := (&wirepb.Frame{}).ProtoReflect().Descriptor().Fields()
	layers := map[string]Layer{"overlay": Overlay, "scribe": Scribe, "owner": Owner, "feed": Feed, "wedge": Wedge, "sums": Sums, "corona": Corona, "cobra": Cobra, "relay": Relay, "tiers": Tiers}
	for name, layer := range layers {
		if f := fields.ByNumber(protowire.Number(layer)); f == nil || string(f.Name()) != name {
			t.Errorf("layer %d is not %s", layer, name)
		}
	}
	if fields.Len() != len(layers) {
		t.Errorf("%d fields, %d layers", fields.Len(), len(layers))
	}
}

func TestFrameOverTheLimitPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a message over MaxMessage was framed")
		}
	}()
	AppendFrame(nil, Overlay, &wirepb.Hello{Agent: strings.Repeat("a", MaxMessage)})
}

func TestFrameRefusals(t *testing.T) {
	good := AppendFrame(nil, Overlay, &wirepb.Hello{Agent: "agent"})
	for name, frame := range map[string][]byte{
		"empty":           {},
		"tag alone":       good[:1],
		"cut short":       good[:len(good)-1],
		"something after": append(slices.Clone(good), 0),
		"two messages":    append(slices.Clone(good), good...),
		"a number":        protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 7),
		"field 0":         {0x02, 0x00},
		"layer 256":       protowire.AppendBytes(protowire.AppendTag(nil, 256, protowire.BytesType), nil),
		"endless tag":     bytes.Repeat([]byte{0xff}, 11),
		"endless length":  append([]byte{0x0a}, bytes.Repeat([]byte{0xff}, 11)...),
		"length lies":     {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2, 3},
		"long tag":        {0x8a, 0x00, 0x01, 'x'},
		"long length":     {0x0a, 0x81, 0x00, 'x'},
		"over the limit":  protowire.AppendBytes([]byte{0x0a}, make([]byte, env.MaxFrame)),
	} {
		if layer, body, err := ParseFrame(frame); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: layer %d, %d bytes, %v", name, layer, len(body), err)
		}
	}
}

func TestStreamReadsWhatWasAppended(t *testing.T) {
	var stream []byte
	messages := [][]byte{{}, []byte("a"), bytes.Repeat([]byte("b"), 127), bytes.Repeat([]byte("c"), 128),
		bytes.Repeat([]byte("d"), env.MaxFrame)}
	for _, m := range messages {
		stream = AppendDelimited(stream, m)
	}
	r := bufio.NewReader(bytes.NewReader(stream))
	for i, want := range messages {
		if got, err := ReadDelimited(r, env.MaxFrame); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("message %d: %d bytes, %v; want %d", i, len(got), err, len(want))
		}
	}
	if _, err := ReadDelimited(r, env.MaxFrame); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestStreamRefusals(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name   string
		stream io.Reader
		want   error
	}{
		{"over the limit", bytes.NewReader(AppendDelimited(nil, make([]byte, 101))), ErrFrame},
		{"a length of 2^63", strings.NewReader("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), ErrFrame},
		{"an endless length", bytes.NewReader(bytes.Repeat([]byte{0xff}, 99)), ErrFrame},
		{"a long zero", strings.NewReader("\x80\x00"), ErrFrame},
		{"an endless zero", bytes.NewReader(bytes.Repeat([]byte{0x80}, 99)), ErrFrame},
		{"cut within a length", strings.NewReader("\x80"), io.ErrUnexpectedEOF},
		{"cut before the message", strings.NewReader("\x05"), io.ErrUnexpectedEOF},
		{"cut within a message", strings.NewReader("\x05abc"), io.ErrUnexpectedEOF},
		{"broken within a message", io.MultiReader(strings.NewReader("\x05abc"), failing{broken}), broken},
		{"broken between messages", failing{broken}, broken},
	} {
		if msg, err := ReadDelimited(bufio.NewReader(c.stream), 100); !errors.Is(err, c.want) {
			t.Errorf("%s: %d bytes, %v; want %v", c.name, len(msg), err, c.want)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A length that a peer claims costs no memory.
func TestStreamChecksBeforeItAllocates(t *testing.T) {
	r := bufio.NewReader(bytes.NewReader(protowire.AppendVarint(nil, 1<<31)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ReadDelimited(r, env.MaxFrame)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrFrame) {
		t.Error(err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("%d bytes allocated to refuse a length", got)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(AppendFrame(nil, Overlay, &wirepb.Hello{Agent: "agent"}))
	f.Add(AppendFrame(nil, Scribe, &wirepb.Hello{}))
	f.Add([]byte{0x8a, 0x00, 0x01, 'x'})
	f.Fuzz(func(t *testing.T, frame []byte) {
		layer, body, err := ParseFrame(frame)
		if err != nil {
			return
		}
		again := protowire.AppendTag(nil, protowire.Number(layer), protowire.BytesType)
		if again = protowire.AppendBytes(again, body); !bytes.Equal(again, frame) {
			t.Fatalf("%x parsed and appended is %x", frame, again)
		}
		var m wirepb.Frame
		if err := proto.Unmarshal(frame, &m); err != nil {
			t.Fatalf("what ParseFrame takes is no Frame: %v", err)
		}
		if layer == Overlay && !bytes.Equal(m.GetOverlay(), body) || layer == Scribe && !bytes.Equal(m.GetScribe(), body) {
			t.Fatalf("layer %d: %x here, %v by the specification", layer, body, &m)
		}
	})
}

func FuzzDelimited(f *testing.F) {
	f.Add(AppendDelimited(AppendDelimited(nil, []byte("one")), nil))
	f.Add([]byte{0x80, 0x80, 0x00})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bufio.NewReader(bytes.NewReader(stream))
		var again []byte
		for {
			msg, err := ReadDelimited(r, 1<<10)
			if err != nil {
				break
			}
			again = AppendDelimited(again, msg)
		}
		if !bytes.HasPrefix(stream, again) {
			t.Fatalf("%x read and appended is %x", stream, again)
		}
	})
}
