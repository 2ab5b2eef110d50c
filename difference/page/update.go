package page

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"tidings/difference/page/pagepb"
)

const (
	// MaxText is the maximum size of a core's text in a channel, in bytes. It fits into a log entry even if it
	// cannot be compressed.
	MaxText = 768 << 10
	// wholeEvery is the maximum number of patches before a version is sent whole. A node that continues with
	// the channel then reads no more of its log, which keeps about 200 of them. A version is sent whole earlier
	// if the patches would be as large.
	wholeEvery = 32
)

// ErrUnknown says that an update needs a version that is unknown.
var ErrUnknown = errors.New("update of an unknown version")

// Pack compresses a core's text for readers without another version.
func (c *Core) Pack() ([]byte, error) {
	text := c.Text()
	if len(text) > MaxText {
		return nil, fmt.Errorf("pack page: %w: %d bytes of text, more than %d", ErrLarge, len(text), MaxText)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("pack page: %w", err)
	}
	return enc.EncodeAll([]byte(text), nil), nil
}

// Unpack returns a packed core, without its title.
func Unpack(b []byte) (Core, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxText), zstd.WithDecoderLowmem(true))
	if err != nil {
		return Core{}, fmt.Errorf("unpack page: %w", err)
	}
	defer dec.Close()
	text, err := dec.DecodeAll(b, nil)
	switch {
	case err != nil:
		return Core{}, fmt.Errorf("unpack page: %w", err)
	case len(text) > MaxText || len(text) > 0 && text[len(text)-1] != '\n' || !utf8.Valid(text):
		return Core{}, fmt.Errorf("unpack page: %w: no lines", ErrPatch)
	case len(text) == 0:
		return Core{}, nil
	}
	core := Core{Lines: strings.Split(string(text[:len(text)-1]), "\n")}
	if len(core.Lines) > maxLines {
		return Core{}, fmt.Errorf("unpack page: %w: %d lines, more than %d", ErrLarge, len(core.Lines), maxLines)
	}
	for _, l := range core.Lines {
		if !lineOfCore(l) {
			return Core{}, fmt.Errorf("unpack page: %w: a line", ErrPatch)
		}
	}
	return core, nil
}

// lineOfCore reports whether a text can be a line of a core.
func lineOfCore(l string) bool {
	return l != "" && len(l) <= 2*maxLine && !strings.ContainsAny(l, "\n\r") && utf8.ValidString(l)
}

// Update encodes the visible version for the log, after a check that found it new.
func (m *Tracker) Update() ([]byte, error) {
	packed, err := m.visible.Pack()
	if err != nil {
		return nil, err
	}
	update := updateOf(&m.visible, m.number)
	if m.patch != nil && m.patches < wholeEvery && m.patchBytes+len(m.patch) < len(packed) {
		update.How = &pagepb.Update_Patch{Patch: m.patch}
		m.patches++
		m.patchBytes += len(m.patch)
	} else {
		update.How = &pagepb.Update_Whole{Whole: packed}
		m.patches, m.patchBytes = 0, 0
	}
	return encode(update)
}

// Update encodes a core as a first version, for Tracker.Apply.
func (c *Core) Update() ([]byte, error) {
	packed, err := c.Pack()
	if err != nil {
		return nil, err
	}
	update := updateOf(c, 1)
	update.How = &pagepb.Update_Whole{Whole: packed}
	return encode(update)
}

// updateOf returns an update of a core without its text.
func updateOf(c *Core, number uint64) *pagepb.Update {
	hash := c.Hash()
	return &pagepb.Update{Number: number, New: hash[:], Title: strings.ToValidUTF8(c.Title, "\uFFFD")}
}

func encode(update *pagepb.Update) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(update)
	if err != nil {
		return nil, fmt.Errorf("encode update: %w", err)
	}
	return b, nil
}

// Apply continues with a version from the log, as if a check had found it. After an error the tracker is empty
// except for its marks. The error is ErrUnknown if the preceding version is missing.
func (m *Tracker) Apply(update []byte) error {
	known := m.known()
	now, _, err := m.read(update)
	if err != nil {
		*m = Tracker{marks: m.marks, returns: m.returns}
		return fmt.Errorf("take update: %w", err)
	}
	if known {
		m.remember(m.visible.Hash())
		all := changes(m.last.Lines, now.Lines)
		m.returns.learn(m.last.Lines, now.Lines, all, all, m.checked)
	}
	m.visible, m.last = now, now
	return nil
}

// Replay continues with a version from the log, and returns what the check that found it said: a change, or Same if the
// log does not have the version before it, or if no change is asked for, which is much faster. It learns nothing of volatile
// parts. Errors are those of Apply.
func (m *Tracker) Replay(update []byte, change bool) (Result, error) {
	was := *m
	now, patch, err := m.read(update)
	if err != nil {
		*m = Tracker{}
		return Result{}, fmt.Errorf("replay update: %w", err)
	}
	m.visible, m.last = now, now
	if !change || !was.known() || m.number != was.number+1 {
		return Result{}, nil
	}
	if len(patch.Hunks) == 0 { // the version was sent whole
		_, patch = replace(&was.visible, &now, changes(was.visible.Lines, now.Lines))
	}
	return Result{Kind: Changed, Number: m.number, Patch: patch, Before: was.visible, Core: now}, nil
}

// read returns the version of an update, and the patch if it has one, and takes its number.
func (m *Tracker) read(update []byte) (now Core, p Patch, err error) {
	u := new(pagepb.Update)
	if err := proto.Unmarshal(update, u); err != nil {
		return Core{}, Patch{}, fmt.Errorf("%w: %w", ErrPatch, err)
	}
	switch how := u.How.(type) {
	case *pagepb.Update_Whole:
		now, err = Unpack(how.Whole)
		m.patches, m.patchBytes = 0, 0
	case *pagepb.Update_Patch:
		if u.Number != m.number+1 || !m.known() {
			return Core{}, Patch{}, ErrUnknown
		}
		if p, err = Decode(how.Patch, &m.visible); err == nil {
			now, err = p.Apply(&m.visible)
		}
		if size := now.size(); err == nil && (size > MaxText || len(now.Lines) > maxLines) {
			err = fmt.Errorf("%w: %d bytes of text in %d lines, more than %d in %d", ErrLarge, size, len(now.Lines), MaxText, maxLines)
		}
		m.patches++
		m.patchBytes += len(how.Patch)
	default:
		err = ErrPatch
	}
	if err != nil {
		return Core{}, Patch{}, err
	}
	if hash := now.Hash(); string(hash[:]) != string(u.New) || len(u.Title) > maxTitle || u.Number == 0 {
		return Core{}, Patch{}, fmt.Errorf("%w: it leads elsewhere", ErrPatch)
	}
	m.number, now.Title = u.Number, u.Title
	return now, p, nil
}
