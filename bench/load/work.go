package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	batchBytes  = 64 << 10
	inFlight    = 5
	bufferedMax = 20_000 // records: about thirty batches, so that batches fill and memory stays small
	slabRecords = 1_000
	valueKinds  = 1_000
)

func codec(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.CompressionCodec{}, fmt.Errorf("no codec is called %q", name)
}

// values are half noise and half repetition, so that codecs have something and not everything to gain.
func values(size int) [][]byte {
	random := rand.New(rand.NewSource(1))
	made := make([][]byte, valueKinds)
	for i := range made {
		made[i] = make([]byte, size)
		for at := range made[i] {
			if at%2 == 0 {
				made[i][at] = byte('a' + random.Intn(26))
			} else {
				made[i][at] = 'x'
			}
		}
	}
	return made
}

func producer(j job, options ...kgo.Opt) (*kgo.Client, error) {
	compression, err := codec(j.codec)
	if err != nil {
		return nil, err
	}
	acks := kgo.LeaderAck()
	if j.acks == "all" || j.idempotent {
		acks = kgo.AllISRAcks()
	}
	common := []kgo.Opt{
		kgo.SeedBrokers(j.broker),
		kgo.DefaultProduceTopic(j.topic),
		kgo.RequiredAcks(acks),
		kgo.ProducerBatchMaxBytes(batchBytes),
		kgo.ProducerBatchCompression(compression),
		kgo.RecordRetries(0),
	}
	if !j.idempotent {
		common = append(common, kgo.DisableIdempotentWrite())
	}
	return newClient(append(common, options...)...)
}

// produce sends the records in full batches as fast as the broker takes them.
func produce(ctx context.Context, j job) (result, error) {
	client, err := producer(j,
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(bufferedMax),
		kgo.MaxProduceRequestsInflightPerBroker(inFlight))
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return result{}, err
	}
	kinds := values(j.size)
	var first error
	var once sync.Once
	failed := func(_ *kgo.Record, err error) {
		if err != nil {
			once.Do(func() { first = err })
		}
	}
	began := time.Now()
	for sent := 0; sent < j.records; sent += slabRecords {
		slab := make([]kgo.Record, min(slabRecords, j.records-sent))
		for i := range slab {
			slab[i].Value = kinds[i%valueKinds]
			client.Produce(ctx, &slab[i], failed)
		}
	}
	if err := client.Flush(ctx); err != nil {
		return result{}, err
	}
	return summary(j.records, time.Since(began)), first
}

// consume reads that many records from the beginning of the topic.
func consume(ctx context.Context, j job) (result, error) {
	client, err := newClient(
		kgo.SeedBrokers(j.broker),
		kgo.ConsumeTopics(j.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	began := time.Now()
	seen := 0
	for seen < j.records {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return result{}, err
		}
		seen += fetches.NumRecords()
	}
	return summary(seen, time.Since(began)), nil
}

// single sends one record in each request; every connection waits for the answer before its next one.
func single(ctx context.Context, j job) (result, error) {
	each := j.records / j.connections
	if each == 0 {
		return result{}, fmt.Errorf("%d records are too few for %d connections", j.records, j.connections)
	}
	took := make([][]time.Duration, j.connections)
	failures := make([]error, j.connections)
	clients := make([]*kgo.Client, j.connections)
	for i := range clients {
		client, err := producer(j, kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			return result{}, err
		}
		defer client.Close()
		clients[i] = client
		// The first request learns the topic's metadata: it is not counted.
		if _, err := sendOne(ctx, client, i%j.partitions, j.size, 1); err != nil {
			return result{}, err
		}
	}
	var all sync.WaitGroup
	began := time.Now()
	for i, client := range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			took[i], failures[i] = sendOne(ctx, client, i%j.partitions, j.size, each)
		}()
	}
	all.Wait()
	measured := summary(each*j.connections, time.Since(began))
	return withLatencies(measured, slices.Concat(took...)), errors.Join(failures...)
}

func sendOne(ctx context.Context, client *kgo.Client, partition, size, count int) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, count)
	value := make([]byte, size)
	for range count {
		began := time.Now()
		record := kgo.Record{Value: value, Partition: int32(partition)}
		if err := client.ProduceSync(ctx, &record).FirstErr(); err != nil {
			return latencies, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}
