#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes nsys.sqlite, rocpd.db, rocprof.json and rocprof_kernel_trace.csv of this folder: python3 make_kernel_traces.py

No profiler wrote them: they follow the documented forms, with only the columns and keys that those name for kernels,
copies, launches and ranges (Nsight Systems, "SQLite Export Schema Reference"; ROCprofiler-SDK, "Using rocprofv3").
All four hold the same two steps of 5 kernels and a copy, of which two kernels overlap on two streams."""
import csv
import json
import pathlib
import sqlite3

HERE = pathlib.Path(__file__).parent
BEGIN = 1_000_000_000  # ns
STEP = 100_000
# Name, begin in its step, length, stream.
KERNELS = [
    ("void at::native::(anonymous namespace)::indexSelectLargeIndex<float, embedding>", 1_000, 2_000, 7),
    ("ampere_sgemm_128x64_tn", 4_000, 20_000, 7),
    ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(Flash_fwd_params)", 26_000, 10_000, 7),
    ("ampere_sgemm_64x32_sliced1x4_nn", 40_000, 16_000, 7),
    ("void my_own_kernel<float>(float*, int)", 48_000, 8_000, 13),
]
COPY = (60_000, 500)  # device to host, on stream 7


def kernels():
    """(correlation, step, name, begin, end, stream) of each."""
    for step in range(2):
        for i, (name, begin, length, stream) in enumerate(KERNELS):
            at = BEGIN + step * STEP + begin
            yield 10 * step + i + 1, step, name, at, at + length, stream


def copies():
    for step in range(2):
        at = BEGIN + step * STEP + COPY[0]
        yield 10 * step + 9, step, at, at + COPY[1]


def rocpd():
    path = HERE / "rocpd.db"
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.executescript("""
        PRAGMA page_size = 1024;
        CREATE TABLE rocpd_info_agent_0a1b (id INTEGER NOT NULL PRIMARY KEY, type TEXT, name TEXT, product_name TEXT);
        CREATE TABLE rocpd_info_kernel_symbol_0a1b (id INTEGER NOT NULL PRIMARY KEY, kernel_name TEXT, display_name TEXT);
        CREATE TABLE rocpd_kernel_dispatch_0a1b (id INTEGER NOT NULL PRIMARY KEY, agent_id INTEGER, kernel_id INTEGER,
          dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT NOT NULL, end BIGINT NOT NULL);
        CREATE TABLE rocpd_memory_copy_0a1b (id INTEGER NOT NULL PRIMARY KEY, start BIGINT NOT NULL, end BIGINT NOT NULL,
          name_id INTEGER, size BIGINT);
        CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM rocpd_kernel_dispatch_0a1b;
    """)
    db.execute("INSERT INTO rocpd_info_agent_0a1b VALUES (1, 'CPU', 'cpu', 'a CPU'), (2, 'GPU', 'gfx942', 'AMD MI300X')")
    for i, (name, *_) in enumerate(KERNELS):
        db.execute("INSERT INTO rocpd_info_kernel_symbol_0a1b VALUES (?, ?, ?)", (i + 1, name + ".kd", name))
    for id, _, name, begin, end, stream in kernels():
        kernel = [each[0] for each in KERNELS].index(name) + 1
        db.execute("INSERT INTO rocpd_kernel_dispatch_0a1b VALUES (?, 2, ?, ?, ?, 0, ?, ?)",
                   (id, kernel, id, stream, begin, end))
    for id, _, begin, end in copies():
        db.execute("INSERT INTO rocpd_memory_copy_0a1b VALUES (?, ?, ?, 1, 4096)", (id, begin, end))
    db.commit()
    db.close()


def rocpd4(name, times_apart):
    """The tables of rocpd 4: tracks, and in 4.0 a table of all times."""
    path = HERE / name
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    span = "start_id INTEGER, end_id INTEGER" if times_apart else "start BIGINT, end BIGINT"
    db.executescript(f"""
        PRAGMA page_size = 1024;
        CREATE TABLE rocpd_info_agent_4b (id INTEGER NOT NULL PRIMARY KEY, type TEXT, name TEXT, product_name TEXT);
        CREATE TABLE rocpd_info_kernel_symbol_4b (id INTEGER NOT NULL PRIMARY KEY, kernel_name TEXT, display_name TEXT);
        CREATE TABLE rocpd_track_4b (id INTEGER NOT NULL PRIMARY KEY, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER);
        CREATE TABLE rocpd_kernel_dispatch_4b (id INTEGER NOT NULL PRIMARY KEY, track_id INTEGER NOT NULL,
          kernel_id INTEGER NOT NULL, dispatch_id INTEGER, {span});
        CREATE TABLE rocpd_memory_copy_4b (id INTEGER NOT NULL PRIMARY KEY, track_id INTEGER, {span}, name_id INTEGER);
        INSERT INTO rocpd_info_agent_4b VALUES (1, 'GPU', 'gfx942', 'AMD MI300X');
    """)
    if times_apart:
        db.execute("CREATE TABLE rocpd_timestamp_4b (id INTEGER NOT NULL PRIMARY KEY, value BIGINT NOT NULL, track_id INTEGER)")

    def at(time):
        if not times_apart:
            return time
        return db.execute("INSERT INTO rocpd_timestamp_4b (value, track_id) VALUES (?, 1)", (time,)).lastrowid

    for i, (name, *_) in enumerate(KERNELS):
        db.execute("INSERT INTO rocpd_info_kernel_symbol_4b VALUES (?, ?, ?)", (i + 1, name + ".kd", name))
    for id, _, name, begin, end, stream in kernels():
        kernel = [each[0] for each in KERNELS].index(name) + 1
        db.execute("INSERT INTO rocpd_kernel_dispatch_4b VALUES (?, ?, ?, ?, ?, ?)",
                   (id, stream, kernel, id, at(begin), at(end)))
    for id, _, begin, end in copies():
        db.execute("INSERT INTO rocpd_memory_copy_4b VALUES (?, NULL, ?, ?, 1)", (id, at(begin), at(end)))
    db.commit()
    db.close()


def rocprof_kern():
    """The one table of rocprof before version 3."""
    path = HERE / "rocprof_kern.db"
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.executescript("""
        PRAGMA page_size = 1024;
        CREATE TABLE KERN ("Index" INTEGER, KernelName TEXT, "gpu-id" INTEGER, "queue-id" INTEGER, BeginNs INTEGER,
          EndNs INTEGER, DurationNs INTEGER);
    """)
    for id, _, name, begin, end, stream in kernels():
        db.execute("INSERT INTO KERN VALUES (?, ?, 8, ?, ?, ?, ?)", (id, name, stream, begin, end, end - begin))
    db.commit()
    db.close()


def nsys():
    path = HERE / "nsys.sqlite"
    path.unlink(missing_ok=True)
    db = sqlite3.connect(path)
    db.executescript("""
        PRAGMA page_size = 1024;
        CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE TARGET_INFO_GPU (id INTEGER NOT NULL PRIMARY KEY, name TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
          contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
          demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, registersPerThread INTEGER NOT NULL,
          gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL,
          blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
          contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
          bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
          globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
        CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, globalTid INTEGER,
          text TEXT, textId INTEGER);
        INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100');
        INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel'), (2, 'cudaMemcpyAsync'), (3, 'attention');""")
    ids = {}
    for name, *_ in KERNELS:
        ids[name] = 100 + len(ids)
        db.execute("INSERT INTO StringIds VALUES (?, ?)", (ids[name], name))
    thread = 77
    for correlation, step, name, begin, end, stream in kernels():
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, ?, ?, 5, ?, ?, 32, 1, 1, 1, 128, 1, 1)",
                   (begin, end, stream, correlation, ids[name], ids[name]))
        launch = BEGIN + step * STEP + 100 * correlation
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 1, 0)", (launch, launch + 50, thread, correlation))
    for correlation, step, begin, end in copies():
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (?, ?, 0, 1, 7, ?, 5, 4096, 2)", (begin, end, correlation))
        launch = BEGIN + step * STEP + 100 * correlation
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 2, 0)", (launch, launch + 50, thread, correlation))
    for step in range(2):
        at = BEGIN + step * STEP
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, ?, NULL)", (at, at + 3_000, thread, f"ProfilerStep#{step}"))
        first = at + 100 * (10 * step + 2)  # the launches of the GEMM and of attention
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, NULL, 3)", (first - 10, first + 150, thread))
        db.execute("INSERT INTO NVTX_EVENTS VALUES (?, NULL, 34, ?, 'a mark', NULL)", (first, thread))
    db.commit()
    db.execute("VACUUM")
    db.close()


def rocprof():
    names = sorted({name for name, *_ in KERNELS})
    dispatches = [{"size": 144, "kind": 11, "operation": 2, "thread_id": 77,
                   "correlation_id": {"internal": correlation, "external": 0},
                   "start_timestamp": begin, "end_timestamp": end,
                   "dispatch_info": {"agent_id": {"handle": 4}, "queue_id": {"handle": stream},
                                     "kernel_id": names.index(name) + 1, "dispatch_id": correlation,
                                     "workgroup_size": {"x": 64, "y": 1, "z": 1},
                                     "grid_size": {"x": 1024, "y": 1, "z": 1}}}
                  for correlation, _, name, begin, end, stream in kernels()]
    moved = [{"size": 80, "kind": 12, "operation": 2, "thread_id": 77,
              "correlation_id": {"internal": correlation, "external": 0}, "start_timestamp": begin, "end_timestamp": end}
             for correlation, _, begin, end in copies()]
    process = {"metadata": {"pid": 1234},
               "agents": [{"id": {"handle": 3}, "type": 1, "product_name": "a CPU"},
                          {"id": {"handle": 4}, "type": 2, "product_name": "AMD Instinct MI300X"}],
               "kernel_symbols": [{"kernel_id": i + 1, "kernel_name": f"mangled_{i}", "formatted_kernel_name": name}
                                  for i, name in enumerate(names)],
               "buffer_records": {"kernel_dispatch": dispatches, "hip_api": [], "memory_copy": moved}}
    (HERE / "rocprof.json").write_text(json.dumps({"rocprofiler-sdk-tool": [process]}, indent=1) + "\n")
    with open(HERE / "rocprof_kernel_trace.csv", "w", newline="") as file:
        out = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        out.writerow(["Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id", "Kernel_Name",
                      "Correlation_Id", "Start_Timestamp", "End_Timestamp", "Workgroup_Size_X", "Grid_Size_X"])
        for correlation, _, name, begin, end, stream in kernels():
            out.writerow(["KERNEL_DISPATCH", "Agent 4", stream, stream, 77, correlation, names.index(name) + 1, name,
                          correlation, begin, end, 64, 1024])


nsys()
rocpd()
rocpd4("rocpd_4_0.db", True)
rocpd4("rocpd_4_1.db", False)
rocprof_kern()
rocprof()
