-- The columns that the five queries use, as in section 1.4.
CREATE TABLE customer (
  c_custkey integer,
  c_mktsegment String
) ENGINE = MergeTree ORDER BY c_custkey;
CREATE TABLE part (
  p_partkey integer,
  p_brand String,
  p_type String,
  p_size integer,
  p_container String
) ENGINE = MergeTree ORDER BY p_partkey;
CREATE TABLE orders (
  o_orderkey integer,
  o_custkey integer,
  o_orderdate date,
  o_shippriority integer
) ENGINE = MergeTree ORDER BY o_orderkey;
CREATE TABLE lineitem (
  l_orderkey integer,
  l_partkey integer,
  l_linenumber integer,
  l_quantity Decimal(15, 2),
  l_extendedprice Decimal(15, 2),
  l_discount Decimal(15, 2),
  l_tax Decimal(15, 2),
  l_returnflag String,
  l_linestatus String,
  l_shipdate date,
  l_shipinstruct String,
  l_shipmode String
) ENGINE = MergeTree ORDER BY (l_orderkey, l_linenumber);
