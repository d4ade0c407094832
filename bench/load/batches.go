package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	batchHeaderBytes = 61
	crcFrom          = 21 // The checksum is over everything from the attributes on.
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// content is what a log is filled with: record n is the same to the byte on every broker, its time is firstMillis+n.
type content struct {
	kinds       [][]byte
	keys        int // how many different ones; 0: records have none
	firstMillis int64
	compressor  kgo.Compressor
	packed      bytes.Buffer
	records     []byte
}

func newContent(j job) (*content, error) {
	chosen, err := codec(j.codec)
	if err != nil {
		return nil, err
	}
	compressor, err := kgo.DefaultCompressor(chosen)
	return &content{kinds: values(j.size), keys: j.keys, firstMillis: j.firstMillis, compressor: compressor}, err
}

// appendBatch appends a batch of the records first, first+1, ... to dst.
func (c *content) appendBatch(dst []byte, first, count int) []byte {
	c.records = c.records[:0]
	for i := range count {
		c.appendRecord(first, i)
	}
	payload, attributes := c.records, uint16(kgo.CodecNone)
	if c.compressor != nil {
		c.packed.Reset()
		var used kgo.CompressionCodecType
		payload, used = c.compressor.Compress(&c.packed, c.records)
		attributes = uint16(used)
	}
	at := len(dst)
	big := binary.BigEndian
	dst = big.AppendUint64(dst, 0) // base offset: the broker's
	dst = big.AppendUint32(dst, uint32(batchHeaderBytes-12+len(payload)))
	dst = big.AppendUint32(dst, 0xffff_ffff) // leader epoch: the broker's
	dst = append(dst, 2, 0, 0, 0, 0)         // magic, and room for the checksum
	dst = big.AppendUint16(dst, attributes)
	dst = big.AppendUint32(dst, uint32(count-1))
	dst = big.AppendUint64(dst, uint64(c.firstMillis+int64(first)))
	dst = big.AppendUint64(dst, uint64(c.firstMillis+int64(first+count-1)))
	dst = big.AppendUint64(dst, ^uint64(0)) // no producer id,
	dst = big.AppendUint16(dst, 0xffff)     // epoch
	dst = big.AppendUint32(dst, 0xffff_ffff)
	dst = big.AppendUint32(dst, uint32(count))
	dst = append(dst, payload...)
	big.PutUint32(dst[at+crcFrom-4:], crc32.Checksum(dst[at+crcFrom:], castagnoli))
	return dst
}

func (c *content) appendRecord(first, delta int) {
	var key []byte
	if c.keys > 0 {
		key = fmt.Appendf(nil, "key-%012d", scattered(uint64(first+delta))%uint64(c.keys))
	}
	value := c.kinds[(first+delta)%len(c.kinds)]
	var small [64]byte
	fields := append(small[:0], 0) // attributes
	fields = binary.AppendVarint(fields, int64(delta))
	fields = binary.AppendVarint(fields, int64(delta))
	if c.keys > 0 {
		fields = binary.AppendVarint(fields, int64(len(key)))
		fields = append(fields, key...)
	} else {
		fields = binary.AppendVarint(fields, -1)
	}
	fields = binary.AppendVarint(fields, int64(len(value)))
	c.records = binary.AppendVarint(c.records, int64(len(fields)+len(value)+1))
	c.records = append(c.records, fields...)
	c.records = append(c.records, value...)
	c.records = append(c.records, 0) // no headers
}

// perBatch is how many records of that size go into a batch of 64 KiB.
func perBatch(size int) int { return max(1, batchBytes/size) }

// scattered is a number as good as random for each n (splitmix64), the same in every run.
func scattered(n uint64) uint64 {
	n = (n + 1) * 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}
