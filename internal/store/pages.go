package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
)

// bbolt trusts its pages. A damaged page makes it fault, recurse until the stack overflows, or
// allocate a terabyte, and a program cannot recover from these. Therefore a file is first read
// here, without bbolt and page by page. The format is bbolt's own, version 2, in the byte order of
// the machine:
//
//	page     id (8) | flags (2) | count (2) | overflow pages (4) | elements
//	meta     magic (4) | version (4) | page size (4) | flags (4) | root (8) | sequence (8)
//	         | free list (8) | pages (8) | transaction (8) | FNV-1a of these (8)
//	branch   position (4) | size of the key (4) | page (8)
//	leaf     flags (4) | position (4) | size of the key (4) | size of the value (4)
//	free     page (8)
//
// The value of a bucket is its root (8) and a sequence (8). A bucket whose root is 0 has its only
// page right behind this value.
const (
	pageSize   = 4096 // of all store files, on every machine
	pageHeader = 16
	metaSize   = 64
	bucketSize = 16

	branchPage = 0x01
	leafPage   = 0x02
	freePage   = 0x10
	bucketFlag = 0x01

	boltMagic   = 0xED0CDAED
	boltVersion = 2
	noFreeList  = 1<<64 - 1

	// maxDepth bounds the depth of a tree. Each branch has two children at least, and a file of 2³²
	// pages would have 16 TiB.
	maxDepth = 32
	// maxPage is the size of the largest page, which holds two values of the maximum size.
	maxPage = 2*MaxWaiting + pageSize
)

var order = binary.NativeEndian

// problems lists what is wrong with a file: the first few problems, and the number of all.
type problems struct {
	first []string
	n     int
}

const maxProblems = 3

func (f *problems) add(format string, args ...any) {
	if f.n++; len(f.first) < maxProblems {
		f.first = append(f.first, fmt.Sprintf(format, args...))
	}
}

func (f *problems) merge(g problems) {
	f.first = append(f.first, g.first[:min(len(g.first), maxProblems-len(f.first))]...)
	f.n += g.n
}

func (f *problems) String() string {
	s := strings.Join(f.first, ", ")
	if more := f.n - len(f.first); more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// A pageReader reads a bbolt file and trusts no byte. It reads each page once at most, whatever the
// pages say.
type pageReader struct {
	file io.ReaderAt
	size int64
	problems

	tx                    uint64 // number of the last transaction
	root, freeList, pages uint64 // according to it
	used                  []bool
	buffers               [maxDepth + 1][]byte // one page for each depth
}

// readPages calls each for all readable records of the buckets. It returns what is wrong, the number of
// bbolt's transaction that it has read, and whether that is the last one rather than the one before. key and
// value are valid until each returns.
func readPages(file io.ReaderAt, size int64, each func(bucket string, key, value []byte)) (damage problems, tx uint64, last bool) {
	p := &pageReader{file: file, size: size}
	if !p.readMeta() {
		return p.problems, 0, false
	}
	last = p.n == 0
	if there := uint64(p.size) / pageSize; p.pages > there {
		p.add("%d of %d pages are there", there, p.pages)
		p.pages = there
	}
	p.used = make([]bool, p.pages)
	p.tree(p.root, 0, nil, nil, func(flags uint32, name, value []byte) {
		if flags&bucketFlag == 0 || len(value) < bucketSize {
			p.add("%q is no bucket", name)
			return
		}
		record := func(flags uint32, k, v []byte) {
			if flags != 0 {
				p.add("record %q has flags %#x", k, flags)
			}
			each(string(name), k, v)
		}
		if root := order.Uint64(value); root != 0 {
			p.tree(root, 1, nil, nil, record)
		} else {
			p.elements("bucket "+string(name), value[bucketSize:], 1, nil, nil, record)
		}
	})
	p.readFreeList()
	return p.problems, p.tx, last
}

// readMeta finds the last transaction. Transactions alternate between two meta pages. If one of
// them is damaged, that one may have been the last.
func (p *pageReader) readMeta() (ok bool) {
	var last uint64
	for i := range int64(2) {
		var b [pageHeader + metaSize]byte
		if _, err := p.file.ReadAt(b[:], i*pageSize); err != nil {
			p.add("meta page %d: %v", i, err)
			continue
		}
		m := b[pageHeader:]
		if order.Uint32(m) != boltMagic || order.Uint32(m[4:]) != boltVersion ||
			order.Uint32(m[8:]) != pageSize || order.Uint64(m[metaSize-8:]) != fnvOf(m[:metaSize-8]) {
			p.add("meta page %d is damaged", i)
			continue
		}
		if tx := order.Uint64(m[48:]); !ok || tx > last {
			last, ok = tx, true
			p.tx, p.root, p.freeList, p.pages = tx, order.Uint64(m[16:]), order.Uint64(m[32:]), order.Uint64(m[40:])
		}
	}
	return ok
}

func fnvOf(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

// tree reads the pages below page id. Their keys must lie in the interval from low to high, without
// high.
func (p *pageReader) tree(id uint64, depth int, low, high []byte, each func(flags uint32, key, value []byte)) {
	if depth > maxDepth {
		p.add("page %d is %d deep", id, depth)
		return
	}
	b := p.page(id, &p.buffers[depth])
	if b != nil {
		p.elements(fmt.Sprintf("page %d", id), b, depth, low, high, each)
	}
}

// page reads a page with its overflow pages. It returns nil if the page cannot be read.
func (p *pageReader) page(id uint64, buffer *[]byte) []byte {
	var h [pageHeader]byte
	if id < 2 || id >= p.pages {
		p.add("page %d is outside the file", id)
		return nil
	}
	if _, err := p.file.ReadAt(h[:], int64(id)*pageSize); err != nil {
		p.add("page %d: %v", id, err)
		return nil
	}
	n := 1 + uint64(order.Uint32(h[12:]))
	if id+n > p.pages || n*pageSize > maxPage {
		p.add("page %d flows over by %d", id, n-1)
		return nil
	}
	if itself := order.Uint64(h[:]); itself != id {
		p.add("page %d calls itself %d", id, itself)
	}
	for i := id; i < id+n; i++ {
		if p.used[i] {
			p.add("page %d is used twice", i)
			return nil
		}
		p.used[i] = true
	}
	if uint64(cap(*buffer)) < n*pageSize {
		*buffer = make([]byte, n*pageSize)
	}
	b := (*buffer)[:n*pageSize]
	if _, err := p.file.ReadAt(b, int64(id)*pageSize); err != nil {
		p.add("page %d: %v", id, err)
		return nil
	}
	return b
}

// elements reads the elements of a page. Leaf elements that are out of order are passed on, too,
// since the checksum of a record decides whether it is undamaged.
func (p *pageReader) elements(name string, b []byte, depth int, low, high []byte, each func(flags uint32, key, value []byte)) {
	if len(b) < pageHeader {
		p.add("%s has %d bytes", name, len(b))
		return
	}
	flags, count := order.Uint16(b[8:]), int(order.Uint16(b[10:]))
	if flags != branchPage && flags != leafPage || flags == branchPage && count == 0 || pageHeader+16*count > len(b) {
		p.add("%s has flags %#x and %d elements", name, flags, count)
		return
	}
	var before []byte
	for i := range count {
		at := pageHeader + 16*i
		e := b[at : at+16]
		if flags == leafPage {
			key, value, ok := cut(b[at:], order.Uint32(e[4:]), order.Uint32(e[8:]), order.Uint32(e[12:]))
			if !ok || !between(key, before, low, high) {
				p.add("%s: element %d is damaged", name, i)
			}
			if ok {
				each(order.Uint32(e), key, value)
				before = key
			}
			continue
		}
		key, _, ok := cut(b[at:], order.Uint32(e), order.Uint32(e[4:]), 0)
		if !ok || !between(key, before, low, high) {
			p.add("%s: element %d is damaged", name, i)
			key = low // the page may still be good
		} else {
			before = key
		}
		p.tree(order.Uint64(e[8:]), depth+1, key, p.next(b, i, count, high), each)
	}
}

// next returns the key of the branch element after i, or high after the last one.
func (p *pageReader) next(b []byte, i, count int, high []byte) []byte {
	if i+1 == count {
		return high
	}
	at := pageHeader + 16*(i+1)
	key, _, ok := cut(b[at:], order.Uint32(b[at:]), order.Uint32(b[at+4:]), 0)
	if !ok {
		return high
	}
	return key
}

// cut returns the key and value of an element. Its position is relative to the start of the
// element.
func cut(b []byte, position, key, value uint32) (k, v []byte, ok bool) {
	from := uint64(position)
	middle := from + uint64(key)
	to := middle + uint64(value)
	if to > uint64(len(b)) || key == 0 || key > maxKey {
		return nil, nil, false
	}
	return b[from:middle], b[middle:to], true
}

// between reports whether a key is where a search would find it.
func between(key, before, low, high []byte) bool {
	return (before == nil || bytes.Compare(before, key) < 0) &&
		(low == nil || bytes.Compare(low, key) <= 0) &&
		(high == nil || bytes.Compare(key, high) < 0)
}

// readFreeList reports pages that the free list names although they are in use. bbolt would
// overwrite them.
func (p *pageReader) readFreeList() {
	if p.freeList == noFreeList {
		p.add("there is no free list") // all files of this package have one
		return
	}
	b := p.page(p.freeList, &p.buffers[0])
	if b == nil {
		return
	}
	flags, count := order.Uint16(b[8:]), uint64(order.Uint16(b[10:]))
	ids := b[pageHeader:]
	if count == 0xFFFF { // the first element is the count
		count, ids = order.Uint64(ids), ids[8:]
	}
	if flags != freePage || count > uint64(len(ids)/8) {
		p.add("free list has flags %#x and %d elements", flags, count)
		return
	}
	var before uint64
	for i := range int(count) {
		id := order.Uint64(ids[8*i:])
		switch {
		case id < 2 || id >= p.pages || id <= before:
			p.add("free list has page %d after %d", id, before)
		case p.used[id]:
			p.add("page %d is used and free", id)
		}
		before = id
	}
}
