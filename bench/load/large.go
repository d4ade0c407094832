package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	warmMessages  = 2
	overheadBytes = 1 << 10 // of a batch around one large value
	readBytes     = 1 << 20 // of each Fetch of a cold read
)

// largeProduce appends j.requests messages of j.size bytes, one after the other, while a producer of small records
// beside it keeps its rate: latencies are those of the small requests, bytes and seconds those of the messages.
func largeProduce(ctx context.Context, j job) (result, error) {
	batch, err := largeMessage(j)
	if err != nil {
		return result{}, err
	}
	return beside(ctx, j, func(line *talk, _ int) (int, error) { return j.size, line.append(j.topic, batch) })
}

// largeFetch reads as many messages of j.size bytes, from the first j.records of the topic.
func largeFetch(ctx context.Context, j job) (result, error) {
	answer := fetchAnswer()
	return beside(ctx, j, func(line *talk, number int) (int, error) {
		offset := int64(number % j.records)
		request := fetchFrom(j.topic, offset)
		request.Topics[0].Partitions[0].PartitionMaxBytes = int32(j.size + overheadBytes)
		if err := line.call(request, answer); err != nil {
			return 0, err
		}
		found := answer.Topics[0].Partitions[0]
		return j.size, holds(found.RecordBatches, found.ErrorCode, offset)
	})
}

// largeMessage is a batch of one record whose value is noise.
func largeMessage(j job) ([]byte, error) {
	value := make([]byte, j.size)
	rand.New(rand.NewSource(1)).Read(value)
	chosen, err := codec(j.codec)
	if err != nil {
		return nil, err
	}
	compressor, err := kgo.DefaultCompressor(chosen)
	made := content{kinds: [][]byte{value}, firstMillis: time.Now().UnixMilli(), compressor: compressor}
	return made.appendBatch(nil, 0, 1), err
}

// beside does large things j.requests times on one connection while another keeps the rate of small requests.
func beside(ctx context.Context, j job, do func(line *talk, number int) (int, error)) (result, error) {
	if err := j.needBeside(); err != nil {
		return result{}, err
	}
	line, err := dial(ctx, j.broker)
	if err != nil {
		return result{}, err
	}
	defer line.close()
	for number := range warmMessages {
		if _, err := do(line, number); err != nil {
			return result{}, err
		}
	}
	return whileProducing(ctx, j, func() (int, int, error) {
		moved := 0
		for number := range j.requests {
			bytes, err := do(line, number)
			if err != nil {
				return number, moved, err
			}
			moved += bytes
		}
		return j.requests, moved, nil
	})
}

// cold reads the first j.records records of a partition, from the disk if nothing of it is in memory, while
// j.connections producers keep their rate: latencies are theirs, bytes and seconds those of the reading.
func cold(ctx context.Context, j job) (result, error) {
	if err := j.needBeside(); err != nil {
		return result{}, err
	}
	line, err := dial(ctx, j.broker)
	if err != nil {
		return result{}, err
	}
	defer line.close()
	return whileProducing(ctx, j, func() (int, int, error) {
		moved := 0
		next := int64(0)
		answer := fetchAnswer()
		for next < int64(j.records) {
			request := fetchFrom(j.topic, next)
			request.MaxBytes, request.Topics[0].Partitions[0].PartitionMaxBytes = readBytes, readBytes
			if err := line.call(request, answer); err != nil {
				return int(next), moved, err
			}
			found := answer.Topics[0].Partitions[0]
			if err := holds(found.RecordBatches, found.ErrorCode, next); err != nil {
				return int(next), moved, err
			}
			next = endOf(found.RecordBatches)
			moved += len(found.RecordBatches)
		}
		return int(next), moved, nil
	})
}

// endOf is the offset after the last whole one of some batches; there is at least one.
func endOf(batches []byte) int64 {
	end := int64(0)
	for len(batches) >= batchHeaderBytes {
		size := 12 + int(binary.BigEndian.Uint32(batches[8:]))
		if size > len(batches) {
			break
		}
		end = int64(binary.BigEndian.Uint64(batches)) + int64(binary.BigEndian.Uint32(batches[23:])) + 1
		batches = batches[size:]
	}
	return end
}

// whileProducing does something once while producers of small records keep their rate. It returns how many things
// were done, and how many bytes they moved.
func whileProducing(ctx context.Context, j job, do func() (int, int, error)) (result, error) {
	small := j
	small.size = 100
	lanes, closed, err := producers(ctx, small, j.beside, j.connections)
	if err != nil {
		return result{}, err
	}
	defer closed()
	if err := released(); err != nil {
		return result{}, err
	}
	var ended atomic.Bool
	var took []time.Duration
	failed := make(chan error, 1)
	go func() {
		var err error
		took, err = atRate(ctx, j.every, lanes, func(int) bool { return ended.Load() })
		failed <- err
	}()
	began := time.Now()
	done, bytes, err := do()
	measured := summary(done, time.Since(began))
	ended.Store(true)
	if err = errors.Join(err, <-failed); err != nil {
		return result{}, err
	}
	if len(took) == 0 {
		return result{}, fmt.Errorf("it was over before the first small request")
	}
	measured.Bytes = bytes
	return withLatencies(measured, took), nil
}

// append appends a batch to the first partition of a topic.
func (t *talk) append(topic string, batch []byte) error {
	answer := produceAnswer()
	if err := t.call(produceTo(topic, batch), answer); err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
}
