select
  l_orderkey,
  sum(l_extendedprice * (1 - l_discount)) as revenue,
  o_orderdate,
  o_shippriority
from
  lineitem
  all inner join (
    select o_orderkey as l_orderkey, o_orderdate, o_shippriority
    from orders
    where
      o_orderdate < '1995-03-15'
      and o_custkey in (select c_custkey from customer where c_mktsegment = 'BUILDING')
  ) using l_orderkey
where
  l_shipdate > '1995-03-15'
group by
  l_orderkey,
  o_orderdate,
  o_shippriority
order by
  revenue desc,
  o_orderdate
limit 10;
