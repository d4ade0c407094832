# make run    a broker on 127.0.0.1:9092 with its data in ./data
# make cluster  ZooKeeper and three brokers on 127.0.0.1:9092 to 9094, their data in ./data/cluster, until Ctrl-C
# make test   everything the tests need, then the tests; ARGS="-k idempotent" narrows them
# make check  before a commit: lint and the fast tests, without Java and programs; ARGS="-k idempotent" narrows them
# make parts  all seeds, cases and examples of which `make test` has a part; a quarter of an hour
# make crash  crash tests of the log with 20,000 seeds; ARGS="--seeds 5-5" for some, ARGS=--planted for planted bugs
# make model  replication, transactions, consumer groups and share partitions explored exhaustively, and older rules that do harm; ARGS=--planted for bugs
# make interchange  log directories of Sordini and Apache Kafka 2.7.2 and 3.9.1 opened by each other; ten minutes
# make moved-groups  consumer groups whose coordinator's log is moved to Apache Kafka 4.4.0 and back; three minutes
# make mixed  clusters of Sordini and Apache Kafka 2.7.2 and 3.9.1 brokers, either as controller; half an hour
# make originals  the Scala clients of Kafka 1.1.1 before Sordini and Apache Kafka 2.7.2, with kills; four minutes
# make heritage  the documents' clients in Python, members stopped and cut off from ZooKeeper again and again; two minutes
# make matrix  every API with every kind of access control entry, beside Apache Kafka 3.9.1; two minutes
# make spin   which rows end the wait of a Fetch, and requests of every client library in states of error; five minutes
# make tools   every call of the newest tools of Apache Kafka before three brokers, with what it must print; a minute
# make stall  every request at its largest 1 MiB body: CPU, and how long another client waits; ARGS="--api METADATA"
# make consumer-groups  situations of consumer groups before Apache Kafka 4.4.0, as recorded; UPDATE=1 records; two minutes
# make shares  share partitions, their stored states, and share groups beside Apache Kafka 4.4.0, call by call; ten minutes
# make churn  members of both protocols in one group, killed as the broker is, for ten minutes
# make hostile  hostile requests to Sordini and to Apache Kafka 3.9.1: answers, CPU, waits; ARGS="bombs epoch"
# make chaos  three brokers and transactions under 37 faults in ten minutes, two outages of ZooKeeper too; ARGS="--minutes 2"
# make exactly-once  consume-transform-produce in eight programs, brokers and programs killed; twenty minutes
# make aiokafka-suite  aiokafka's own tests on the test kit; six minutes; AIOKAFKA_REPOSITORY=CLONE takes a local Git clone
# make franz-go-suite  franz-go's own tests of groups by both protocols, and of transactions; Go fetches them; two minutes
# make librdkafka-suite  librdkafka's own tests of consumers by both group protocols; LIBRDKAFKA_REPOSITORY=CLONE; an hour
# make confluent-suite  confluent-kafka's own tests by both group protocols; ARGS=--apache before Apache Kafka 4.4.0; CONFLUENT_REPOSITORY=CLONE; ten minutes
# make flink  Flink's own source and sink before Sordini and Apache Kafka 4.4.0, with a failure and a savepoint; two minutes
# make recipes  all recipes of docs/testing.md, with Quix Streams and Spark; two minutes
# make share-kills  workers of a share group while they and the broker are killed, ours and Apache Kafka's, and dead letters, SECONDS each; a quarter of an hour
# make mirror  clusters copied into one: fifty kills of mirror and brokers, two ways for ten minutes; half an hour
# make registry  one id for each schema: registration by several clients while registries and brokers fail; ten minutes
# make registry-judge  Karapace answers the requests of tests/registry/judge anew; ARGS="--source FOLDER --python PATH"; two minutes
# make doctor  every planted fault named, and clients run into each for what they print; half an hour
# make console  the console's pages in Debian's Chromium, and axe-core; SORDINI_PICTURES=all writes the pictures; five minutes
# make upserts   a PostgreSQL's changes upserted into a table while its writers are killed, ARGS='--changes N --keys N --kills N --values avro'
# make pipeline  Spark's Kafka source and Sordini's in all scenarios, jobs killed while they write; half an hour
# make sink-kills  Spark from topic to topic in transactions, drivers and workers killed a hundred times, two ways; KILLS=10 ARGS='--broker apache'
# make store-kills  writers killed, or cut off, at every HTTP request to their object store, without Spark; hours, ARGS='-k delta'
# make orchestrators  the examples for Airflow and Dagster by their own runners, in environments of their own; five minutes
# make slow   the tests marked slow, which `make test` leaves out, as others have their subject; ten minutes
# make docker  the images and compose files under a Docker engine of its own: faults, restarts, pages; root; ten minutes
# make demo   activity of a web site, from topics through Spark to tables and a report; five to fifteen minutes
# make sim    seeds of a simulated broker, a cluster, transactions; ARGS, CLUSTER_ARGS, TRANSACTION_ARGS="--seeds 0-9999"
# make simulate  example services under 200 seeds each, and mistakes planted in them; half an hour
# make faults  every command against faulty responses of a broker; five minutes
# make soak   random requests of every API and version for ten minutes, beside a regular client; ARGS="--minutes 2"
# make fuzz   10 million frames in process, 200,000 over TCP, and inputs guided by coverage; ARGS="--frames 100000 --over-tcp 0"
# make portable  storage, network, processes and the kit without the calls that only Linux has; a minute
# make pythons  the fast tests under every Python 3.11 to 3.14 on this machine; ARGS="--only 3.13"
# make lock   write requirements/*.lock anew: the newest versions that pyproject.toml allows, with their hashes
# make sbom   dist/sordini-broker.cdx.json and dist/sordini-pipeline.cdx.json: what the images hold (CycloneDX)
# make audit-dependencies  known vulnerabilities of what is locked; needs the index's vulnerability service
# make dist   dist/sordini-VERSION.tar.gz and the wheel, checked; SORDINI_REPOSITORY=https://... is the address of the repository
# make lint   style, types, import contracts
# make bench  side by side with Apache Kafka; prints the tables of docs/benchmarks.md and docs/evidence/benchmarks.md
# make clean  remove the environment and all caches; ./data stays

# One that was built with profile-guided optimisation, if there is one.
PYTHON ?= $(shell python3 scripts/choose_python.py)
BIN := .venv/bin
ARGS ?=
WORKERS ?= 4
# With it, every process of ours would compile all modules again, which takes as long as all else that a start does.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run cluster test check parts crash model interchange moved-groups mixed originals heritage matrix spin tools stall consumer-groups shares share-kills churn hostile chaos exactly-once mirror registry registry-judge doctor console aiokafka-suite franz-go-suite librdkafka-suite confluent-suite flink recipes pipeline upserts sink-kills store-kills orchestrators slow docker demo sim simulate faults soak fuzz portable pythons lock sbom audit-dependencies dist lint bench \
	clean

help:
	@sed -n 's/^# make/make/p' Makefile

# One line says that it is ready; warnings and errors are printed, too.
run: .venv/.installed-serve
	@exec $(BIN)/sordini serve --log-level warning --override listeners=PLAINTEXT://127.0.0.1:9092 --override log.dirs=data \
		--override group.initial.rebalance.delay.ms=0 $(ARGS)

cluster: .venv/.installed-serve
	@$(PYTHON) scripts/outside.py cluster
	@exec $(PYTHON) scripts/cluster.py $(ARGS)

test: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadscope $(ARGS)

# Without what takes half a minute of it: every request at its largest, and tests of the benchmark and the examples.
FAST = --ignore=tests/unit/broker/requests/test_longest_requests.py --ignore=tests/unit/bench --ignore=tests/unit/examples \
	tests/unit tests/scenarios tests/outside/test_processes.py tests/test_tidy.py tests/test_documents.py
check: lint
	$(BIN)/python -m pytest --numprocesses 2 --dist loadscope -q $(FAST) $(ARGS)

PARTED = tests/unit tests/sim tests/fuzz tests/testing/processes tests/testing/recipes/test_ci_files.py
parts: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_PART=all $(BIN)/python -m pytest --numprocesses 2 --dist loadscope $(PARTED) $(ARGS)

crash: .venv/.installed-dev
	$(BIN)/python -m tests.crash $(ARGS)

model: .venv/.installed-dev
	$(BIN)/python -m tests.model $(ARGS)

interchange: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_INTERCHANGE=all SORDINI_PART=all $(BIN)/python -m pytest tests/compat/interchange tests/compat/test_raised_epochs.py $(ARGS)

moved-groups: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_MOVED_GROUPS=all $(BIN)/python -m pytest tests/compat/interchange/test_moved_groups.py tests/compat/interchange/test_moved_share_states.py $(ARGS)

mixed: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_MIXED=all SORDINI_PART=all $(BIN)/python -m pytest tests/cluster $(ARGS)

originals: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_ORIGINALS=all $(BIN)/python -m pytest tests/compat/originals $(ARGS)

heritage: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_HERITAGE=all SORDINI_PART=all $(BIN)/python -m pytest tests/heritage $(ARGS)

matrix: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_ACL_MATRIX=all $(BIN)/python -m pytest tests/compat/test_acl_matrix.py $(ARGS)

spin: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_SPIN=all SORDINI_PART=all $(BIN)/python -m pytest tests/compat/test_fetch_waits.py tests/compat/test_spin.py -s $(ARGS)

tools: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_TOOLS=all $(BIN)/python -m pytest tests/compat/test_tools.py $(ARGS)

stall: .venv/.installed-dev
	$(BIN)/python -m tests.support.longest_requests $(ARGS)
	SORDINI_STALL=all $(BIN)/python -m pytest tests/unit/broker/requests/test_longest_requests.py

consumer-groups: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py newest
	SORDINI_CONSUMER_GROUPS=all SORDINI_PART=all $(BIN)/python -m pytest tests/compat/test_consumer_groups.py $(ARGS)

shares: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py newest
	SORDINI_SHARES=100 $(BIN)/python -m pytest tests/compat/test_share_partitions.py tests/compat/test_share_situations.py tests/compat/test_share_states.py $(ARGS)
	SORDINI_CONSUMER_GROUPS=all SORDINI_PART=all $(BIN)/python -m pytest tests/compat/test_consumer_groups.py -k share_ $(ARGS)

share-kills: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_SHARE_KILLS=$(or $(SECONDS),300) $(BIN)/python -m pytest tests/compat/test_share_kills.py tests/process/test_dead_letters_through_kills.py -s $(ARGS)

churn: .venv/.installed-dev
	SORDINI_MIXED_CHURN_S=600 $(BIN)/python -m pytest tests/compat/test_mixed_churn.py -s $(ARGS)

hostile: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	$(BIN)/python -m tests.side_by_side $(ARGS)

chaos: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	$(BIN)/python -m tests.cluster.chaos $(ARGS)

exactly-once: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	@$(PYTHON) scripts/outside.py streams
	SORDINI_EXACTLY_ONCE=all SORDINI_PART=all $(BIN)/python -m pytest tests/exactly_once -s $(ARGS)

aiokafka-suite: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py aiokafka-suite
	$(BIN)/python -m tests.client_suites $(ARGS)

franz-go-suite: .venv/.installed-dev
	$(BIN)/python -m tests.client_suites.franz_go_suite $(ARGS)

librdkafka-suite: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py librdkafka-suite
	$(BIN)/python -m tests.client_suites.librdkafka_suite $(ARGS)

confluent-suite: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py newest
	@$(PYTHON) scripts/outside.py confluent-suite
	$(BIN)/python -m tests.client_suites.confluent_suite $(ARGS)

flink: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py newest
	@$(PYTHON) scripts/outside.py flink
	SORDINI_FLINK=all $(BIN)/python -m pytest tests/compat/flink $(ARGS)

recipes: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	@$(PYTHON) scripts/outside.py quixstreams
	SORDINI_RECIPES=all $(BIN)/python -m pytest tests/testing/recipes $(ARGS)

mirror: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_MIRROR=all SORDINI_PART=all $(BIN)/python -m pytest tests/mirror -s $(ARGS)

registry: .venv/.installed-dev
	SORDINI_REGISTRY=all $(BIN)/python -m pytest tests/registry -s $(ARGS)

registry-judge: .venv/.installed-dev
	$(BIN)/python -m tests.registry.judge.record $(ARGS)

doctor: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_DOCTOR=all SORDINI_PART=all $(BIN)/python -m pytest tests/doctor tests/unit/doctor $(ARGS)

console: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py console
	SORDINI_CONSOLE=all SORDINI_PART=all $(BIN)/python -m pytest tests/console tests/unit/console $(ARGS)

pipeline: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	@$(PYTHON) scripts/outside.py iceberg
	@$(PYTHON) scripts/outside.py delta
	@$(PYTHON) scripts/outside.py unbounded-spark
	SORDINI_PIPELINE=all SORDINI_PART=all $(BIN)/python -m pytest tests/pipeline $(ARGS)

sink-kills: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_SINK_KILLS=$(or $(KILLS),100) SORDINI_PIPELINE=all $(BIN)/python -m pytest tests/pipeline/test_sink_under_kills.py -s $(ARGS)

store-kills: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py s3
	@$(PYTHON) scripts/outside.py iceberg-rest
	SORDINI_STORE_KILLS=all SORDINI_PIPELINE=all $(BIN)/python -m pytest tests/pipeline/test_stores_killed.py -s $(ARGS)

upserts: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	@$(PYTHON) scripts/outside.py postgres
	$(BIN)/python -m tests.pipeline.upserts $(ARGS)

orchestrators: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	@$(PYTHON) scripts/outside.py orchestrators
	SORDINI_ORCHESTRATORS=all $(BIN)/python -m pytest tests/pipeline/test_orchestrators.py $(ARGS)

slow: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	SORDINI_PART=all $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadscope -m slow $(ARGS)

docker: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py docker
	SORDINI_DOCKER=all $(BIN)/python -m pytest tests/docker $(ARGS)

demo:
	@$(PYTHON) scripts/demo.py $(ARGS)

sim: .venv/.installed-dev
	$(BIN)/python -m tests.sim $(or $(ARGS),--seeds 100-199)
	$(BIN)/python -m tests.sim.cluster $(or $(CLUSTER_ARGS),--seeds 0-999)
	$(BIN)/python -m tests.sim.transactions $(or $(TRANSACTION_ARGS),--seeds 0-199)

# Which seed finds what depends on the order of sets, and so on PYTHONHASHSEED.
simulate: .venv/.installed-dev
	SORDINI_SIMULATE=all PYTHONHASHSEED=0 $(BIN)/python -m pytest tests/testing/simulation -s $(ARGS)

faults: .venv/.installed-dev
	SORDINI_FAULTS=all $(BIN)/python -m pytest tests/process/test_command_faults.py tests/process/test_commands_alone.py $(ARGS)

soak: .venv/.installed-dev
	$(BIN)/python -m tests.soak $(ARGS)

# atheris has wheels for some systems only: without it, inputs are not guided by coverage.
fuzz: .venv/.installed-dev
	-@$(BIN)/python -m pip --disable-pip-version-check install --quiet --group fuzz
	$(BIN)/python -m tests.fuzz $(ARGS)

PORTABLE = tests/unit/system tests/unit/storage tests/unit/broker/network tests/unit/broker/process tests/network \
	tests/testing/test_brokers.py tests/testing/test_security.py tests/process/test_daemon.py tests/process/test_without_linux.py
portable: .venv/.installed-dev
	SORDINI_PORTABLE=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadscope -k "not zookeeper" $(PORTABLE) $(ARGS)

# Any Python runs it: each environment is made by its own interpreter.
pythons:
	$(PYTHON) scripts/pythons.py $(ARGS)

COMPILE = $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --no-header
lock: .venv/.installed-dev
	$(BIN)/python -m pip --disable-pip-version-check install --quiet --group lock
	$(COMPILE) pyproject.toml --output-file requirements/broker.lock
	$(COMPILE) pyproject.toml --extra spark --output-file requirements/pipeline.lock
	$(COMPILE) requirements/build.in --output-file requirements/build.lock

sbom: .venv/.installed-dev
	@mkdir -p dist
	for image in broker pipeline; do $(BIN)/cyclonedx-py requirements requirements/$$image.lock --pyproject pyproject.toml \
		--output-reproducible --output-file dist/sordini-$$image.cdx.json || exit 1; done

audit-dependencies: .venv/.installed-dev
	$(BIN)/python scripts/audit_dependencies.py

dist: .venv/.installed-dev
	$(BIN)/python scripts/dist.py $(ARGS)

lint: .venv/.installed-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy -p sordini
	$(BIN)/mypy --config-file tests/mypy.ini tests bench examples scripts
	$(BIN)/lint-imports

bench: .venv/.installed-dev
	@$(PYTHON) scripts/outside.py tests
	$(BIN)/python -m bench $(ARGS)

clean:
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis dist

# A stamp older than its sources means that the installation is out of date.
.venv/.installed-serve: pyproject.toml scripts/venv.py
	@$(PYTHON) scripts/venv.py
	@touch $@

.venv/.installed-dev: pyproject.toml scripts/venv.py
	@$(PYTHON) scripts/venv.py dev
	@touch $@ .venv/.installed-serve
