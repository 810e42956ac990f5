// The numbers that cross the border between the host and the engines, and the wire constants of
// virtio 1.4. Plain integer constants only: both the AssemblyScript and the TypeScript compiler read
// this file, so nothing is kept in step by hand. All offsets and sizes are in bytes.

// ---- Split virtqueue, wire format (virtio 1.4, 2.7) ----

/** Largest queue size of either ring format. */
export const QUEUE_SIZE_MAX = 32768;

/** struct virtq_desc (2.7.5) */
export const DESC_BYTES = 16;
export const DESC_ADDR = 0;
export const DESC_LEN = 8;
export const DESC_FLAGS = 12;
export const DESC_NEXT = 14;

export const DESC_F_NEXT = 1;
export const DESC_F_WRITE = 2;
export const DESC_F_INDIRECT = 4;

/** struct virtq_avail (2.7.6): flags, idx, ring[size], used_event */
export const AVAIL_FLAGS = 0;
export const AVAIL_IDX = 2;
export const AVAIL_RING = 4;
export const AVAIL_F_NO_INTERRUPT = 1;

/** struct virtq_used (2.7.8): flags, idx, ring[size] of {id, len}, avail_event */
export const USED_FLAGS = 0;
export const USED_IDX = 2;
export const USED_RING = 4;
export const USED_ELEM_BYTES = 8;
export const USED_ELEM_ID = 0;
export const USED_ELEM_LEN = 4;
export const USED_F_NO_NOTIFY = 1;

// ---- Packed virtqueue, wire format (virtio 1.4, 2.8) ----

/** struct pvirtq_desc (2.8.13): addr and len as in a split descriptor, then id and flags. */
export const PACKED_DESC_ID = 12;
export const PACKED_DESC_FLAGS = 14;
export const PACKED_DESC_F_AVAIL = 0x80;
export const PACKED_DESC_F_USED = 0x8000;

/** struct pvirtq_event_suppress (2.8.14): off_wrap (offset, wrap counter in bit 15), flags in bits 0 and 1. */
export const EVENT_BYTES = 4;
export const EVENT_OFF_WRAP = 0;
export const EVENT_FLAGS = 2;
export const EVENT_FLAGS_MASK = 3;
export const RING_EVENT_FLAGS_ENABLE = 0;
export const RING_EVENT_FLAGS_DISABLE = 1;
export const RING_EVENT_FLAGS_DESC = 2;

/** Alignment of the three areas of a packed virtqueue (2.8.10.1). */
export const PACKED_DESCRIPTOR_ALIGN = 16;
export const PACKED_EVENT_ALIGN = 4;

/** Alignment of the three areas of a split virtqueue (2.7). */
export const SPLIT_DESCRIPTOR_ALIGN = 16;
export const SPLIT_DRIVER_ALIGN = 2;
export const SPLIT_DEVICE_ALIGN = 4;

/**
 * What is written to used_event or avail_event to ask for no event: half the index space ahead of the
 * position already consumed, which at most QUEUE_SIZE_MAX outstanding buffers cannot reach.
 */
export const EVENT_FAR = 0x8000;

/** Most descriptors that one query of the available bytes visits: what bounds it against a hostile ring. */
export const AVAILABLE_BUDGET = 0x100000;
/** Bytes that the segments of a chain may have in all (virtio 1.4, 2.7.4.2, 2.8.5). */
export const CHAIN_BYTES_MAX = 0x1_0000_0000;

// ---- Records that bursts are made of ----

/**
 * Segment record: what a driver burst adds. The first 14 bytes have the shape of a descriptor.
 * `flags` is DESC_F_NEXT (the buffer continues in the following record) and DESC_F_WRITE.
 * `count` is the number of segments of the buffer and stands in its first record only.
 */
export const SEGMENT_BYTES = 16;
export const SEGMENT_ADDRESS = 0; // u64
export const SEGMENT_LENGTH = 8; // u32
export const SEGMENT_FLAGS = 12; // u16
export const SEGMENT_COUNT = 14; // u16

/** Token of each buffer of a driver burst: an array of u32 beside the segment records. */
export const TOKEN_BYTES = 4;

/** Completion record: what a driver gets back. */
export const COMPLETION_BYTES = 8;
export const COMPLETION_TOKEN = 0; // u32
export const COMPLETION_LENGTH = 4; // u32, bytes written by the device, never above the writable part

/**
 * Element record: what a device popped. `first` is the index of the element's first piece in the piece
 * array; the `out` pieces come first, then the `in` pieces. `written` is filled in by the host before
 * the element is pushed.
 */
export const ELEMENT_BYTES = 16;
export const ELEMENT_ID = 0; // u32
export const ELEMENT_FIRST = 4; // u32
export const ELEMENT_OUT = 8; // u16, number of device-readable pieces
export const ELEMENT_IN = 10; // u16, number of device-writable pieces
export const ELEMENT_WRITTEN = 12; // u32

/** Piece record: a contiguous range of local memory that a popped segment (or a part of it) lies in. */
export const PIECE_BYTES = 8;
export const PIECE_ADDRESS = 0; // u32, local
export const PIECE_LENGTH = 4; // u32

/** Most pieces that one element array can hold: the counts of an element are 16 bits wide. */
export const PIECES_MAX = 65535;

/** Region record: guest addresses [guest, guest + length) lie at local address `local`. */
export const REGION_BYTES = 24;
export const REGION_GUEST = 0; // u64
export const REGION_LENGTH = 8; // u64
export const REGION_LOCAL = 16; // u32
export const REGION_INDEX = 20; // u32, in a translation cache only

/** Translation cache of a device: how many windows are valid, which one goes next, then region records. */
export const TRANSLATION_WINDOWS = 4;
export const TRANSLATION_REGIONS = 8;
export const TRANSLATION_BYTES = 104;

// ---- Private records of the WebAssembly engine that the host reads to save and writes to restore ----

/** A buffer in flight: by head descriptor (split) or by id (packed). */
export const BUFFER_BYTES = 16;
export const BUFFER_TOKEN = 0; // u32
export const BUFFER_WRITABLE = 4; // u32
export const BUFFER_TABLE = 8; // u32
export const BUFFER_SEGMENTS = 12; // u16, 0 = not in flight
export const BUFFER_PLACE = 14; // u16, last descriptor or avail position (split), head slot (packed)

/** An element in flight: by head descriptor (split) or by id (packed). */
export const HEAD_BYTES = 12;
export const HEAD_WRITABLE = 0; // u32
export const HEAD_WRITTEN = 4; // u32
export const HEAD_SLOTS = 8; // u16
export const HEAD_FLAGS = 10; // u8
export const HEAD_F_IN_FLIGHT = 1;
/** In-order use: pushed, and held until those before it are pushed. */
export const HEAD_F_DONE = 2;

/** A slot filled and not flushed. */
export const FILL_BYTES = 12;
export const FILL_WRITTEN = 0; // u32
export const FILL_ID = 4; // u32
export const FILL_SLOTS = 8; // u16, 0 = not filled

/** Words (u32) that a driver's `save` writes and `load` reads. */
export const DRIVER_AVAIL = 0;
export const DRIVER_USED = 1;
export const DRIVER_EVENTS = 2;
export const DRIVER_UNKICKED = 3;
export const DRIVER_FREE = 4; // first free descriptor or id
export const DRIVER_NUM_FREE = 5;
export const DRIVER_IN_FLIGHT = 6;
export const DRIVER_OLDEST = 7; // head of the oldest buffer, split ring in order; to load only
export const DRIVER_BATCH_LEFT = 8;
export const DRIVER_BATCH_LENGTH = 9;
export const DRIVER_WORDS = 10;

/** Words (u32) that a device's `save` writes and `load` reads. */
export const DEVICE_AVAIL = 0;
export const DEVICE_USED = 1;
export const DEVICE_EVENTS = 2;
export const DEVICE_UNSIGNALLED = 3;
export const DEVICE_IN_FLIGHT = 4;
export const DEVICE_SLOTS = 5; // ring slots of the elements in flight, packed ring
export const DEVICE_FILLS = 6;
export const DEVICE_ORDER = 7; // index of the next pop in the ring of pops
export const DEVICE_SPAN = 8; // packed ring in order: pops from the one on that the next used descriptor is for
export const DEVICE_FILL_FIRST = 9; // index of the next used entry in the ring of fills
export const DEVICE_WORDS = 10;

// ---- Results of engine operations: a count or 0/1, or one of these ----

/** The queue is broken; the fault says why. */
export const RESULT_BROKEN = -1;
/** A buffer has more segments than the queue has descriptors: it can never be added. */
export const RESULT_TOO_LONG = -2;
/** The next chain needs more pieces than the caller's array holds; nothing was taken. */
export const RESULT_NO_ROOM = -3;
/** The id is not one of an element in flight. */
export const RESULT_NOT_IN_FLIGHT = -4;
/** The written length is above the device-writable length of the element. */
export const RESULT_WRITTEN = -5;
/** The slot is out of range, filled already, or not filled yet. */
export const RESULT_SLOT = -6;
/** A saved state does not fit this queue or contradicts itself; nothing was changed. */
export const RESULT_STATE = -7;

// ---- Counters, in this order; u64 in the control block of the WebAssembly engine ----

export const COUNT_ADDED = 0; // buffers made available (driver) or popped (device)
export const COUNT_COMPLETED = 1; // buffers got back (driver) or pushed (device)
export const COUNT_BYTES_OUT = 2; // device-readable bytes of the added buffers
export const COUNT_BYTES_IN = 3; // bytes written by the device, of the completed buffers
export const COUNT_NOTIFIED = 4; // kicks (driver) or interrupts (device) found necessary
export const COUNT_SUPPRESSED = 5; // ... found suppressed
export const COUNT_FULL = 6; // adds and bursts that ended for want of descriptors
export const COUNT_CLAMPED = 7; // used lengths above the writable part, cut to it
export const COUNT_INDIRECT = 8; // buffers that went through an indirect table (both sides)
export const COUNT_TABLE_FAILED = 9; // table allocations that failed; the buffer went out direct
export const COUNTERS = 10;
// Of a driver alone, in the block of its tables:
export const COUNT_TABLE_HITS = 10; // tables that the cache had ready
export const COUNT_TABLE_MISSES = 11; // tables that had to come from the allocator
export const COUNT_TABLE_REFILLS = 12; // times that the cache had to get something from the allocator
export const COUNT_TABLE_WASTED = 13; // descriptors of the tables taken that their buffers did not need
export const COUNT_TABLE_RETURNED = 14; // tables that came back
export const COUNT_TABLE_HIGH_WATER = 15; // greatest length of the list; the sum of two is the greater one
export const DRIVER_COUNTERS = 16;

// ---- Head of every control block of the WebAssembly engine ----

export const QUEUE_FAULT = 0; // u32, FAULT_*
export const QUEUE_FAULT_A = 8; // u64, first offending value
export const QUEUE_FAULT_B = 16; // u64, second offending value
export const QUEUE_COUNTERS = 24; // u64[COUNTERS]
export const QUEUE_HEAD_BYTES = 104;

// ---- Indirect tables of a driver ----

/** Strategies: where tables come from. */
export const TABLES_NONE = 0;
export const TABLES_SLAB = 1;
export const TABLES_SLAB_BULK = 2;
export const TABLES_LIST = 3;

/** Most tables that are taken or given back at once (slab-bulk). */
export const TABLES_BULK = 32;
/** Bytes of a page of table memory: a power of two in this range, at most a 16th of the memory. */
export const TABLES_PAGE_MIN = 16;
export const TABLES_PAGE_MAX = 4096;

/** Head of the block of a driver's tables: the u64 counters from COUNT_TABLE_HITS on, then what is in flight. */
export const TABLES_IN_FLIGHT = 48; // u32 descriptors, u32 tables
export const TABLES_HEAD_BYTES = 56;

/** How the threshold of a driver moves. */
export const THRESHOLD_FIXED = 0;
export const THRESHOLD_ADAPTIVE = 1;
export const THRESHOLD_HYSTERESIS = 2;

/** Segments that are added from one look of `adaptive-hysteresis` to the next, if the queue has no more descriptors. */
export const THRESHOLD_LAP_SEGMENTS = 256;
/** Instead of a number of segments: more than any buffers of a burst have, and far below 2^32 with them added. */
export const THRESHOLD_NO_LIMIT = 0x4000_0000;

/** Last changes of a threshold that are remembered: entry i is change i modulo this. */
export const THRESHOLD_HISTORY = 64;
export const CHANGE_BYTES = 16;
export const CHANGE_ADDED = 0; // u64, buffers added before the one that brought the change about
export const CHANGE_VALUE = 8; // u32

/** Block of a driver's threshold. */
export const THRESHOLD_CHANGES = 0; // u64, how many changes there were
export const THRESHOLD_VALUE = 8; // u32
export const THRESHOLD_LAP = 12; // u32
export const THRESHOLD_PEAK = 16; // u32
export const THRESHOLD_ENTRIES = 40;

// ---- Faults: what broke a queue. errors.ts has code and text of each ----

export const FAULT_NONE = 0;
/** avail.idx (a) is more than the queue size ahead of the device's position (b). */
export const FAULT_AVAIL_IDX = 1;
/** avail.ring entry (a) is not below the queue size (b). */
export const FAULT_HEAD_RANGE = 2;
/** avail.ring names head a, which is still in flight; b = elements in flight. */
export const FAULT_HEAD_IN_FLIGHT = 3;
/** next (a) is not below the number of descriptors (b) of the queue or table. */
export const FAULT_NEXT_RANGE = 4;
/** The chain of head a came back to a descriptor: more than b were visited. */
export const FAULT_CHAIN_LOOP = 5;
/** The chain of head a has more than b (the queue size) descriptors over all tables. */
export const FAULT_CHAIN_LONG = 6;
/** Segment address a, length b is outside every region, or wraps. */
export const FAULT_SEGMENT_RANGE = 7;
/** A device-readable segment (address a, length b) follows a device-writable one. */
export const FAULT_SEGMENT_ORDER = 8;
/** The INDIRECT flag is set (descriptor a, flags b) but INDIRECT_DESC was not negotiated. */
export const FAULT_INDIRECT_REFUSED = 9;
/** The INDIRECT flag is set inside an indirect table (descriptor a, flags b). */
export const FAULT_INDIRECT_NESTED = 10;
/** INDIRECT together with NEXT, or in a packed chain behind another descriptor (descriptor or slot a, flags b). */
export const FAULT_INDIRECT_NEXT = 11;
/** Table length a is 0 or not a multiple of 16; b = table address. */
export const FAULT_TABLE_LENGTH = 12;
/** Table address a, length b is not inside one region. */
export const FAULT_TABLE_RANGE = 13;
/** The chain of head a has more than 2^32 bytes in all: b. */
export const FAULT_CHAIN_BYTES = 14;
/** used.idx (a) is ahead of the driver's position (b) by more than what is in flight. */
export const FAULT_USED_IDX = 15;
/** used id (a) is not below the queue size (b). */
export const FAULT_USED_ID_RANGE = 16;
/** used id (a) is not the head of a buffer in flight; used length b. */
export const FAULT_USED_ID = 17;
/** used length (a) is above the writable length (b) of the buffer; strict mode only. */
export const FAULT_USED_LEN = 18;
/** The chain at ring slot a goes on to slot b, which the driver has not made available. */
export const FAULT_DESC_UNAVAILABLE = 19;
/** The chain at ring slot a needs more slots than the queue has beside the b that are in flight. */
export const FAULT_SLOTS = 20;
/** In-order use: the batch that ends with used id a holds more buffers than the used entries (b) that came. */
export const FAULT_USED_BATCH = 21;
